//go:build unix

package grpcpeer_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"symbio/actor"
	"symbio/community"
	"symbio/discovery"
	"symbio/security/identity"
	"symbio/transport/grpcpeer"
)

const childEnv = "SYMBIO_TEST_NODE"

// TestMain lets tests start this program as a node in a process of its own, which can be killed and
// stopped.
func TestMain(m *testing.M) {
	dir := os.Getenv(childEnv)
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := runChild(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// runChild is a node that ends with its standard input.
func runChild(dir string) error {
	a, err := identity.OpenLocalAuthority(filepath.Join(dir, "authority"))
	if err != nil {
		return err
	}
	k, err := identity.LoadOrCreateKey(filepath.Join(dir, "child", "key.pem"))
	if err != nil {
		return err
	}
	id, err := a.Issue(k)
	if err != nil {
		return err
	}
	many := 0 // the default
	var web net.Listener
	if os.Getenv(benchEnv) != "" {
		many = crowded
		serveFloors(id)
		if web, err = listenWebSocket(); err != nil {
			return err
		}
	}
	n, err := grpcpeer.New(grpcpeer.Config{Identity: id, Name: "child", WebSocket: web, Limits: grpcpeer.Limits{Streams: uint32(many)}})
	if err != nil {
		return err
	}
	c := community.New(community.Config{Node: id.ID(), Name: "child", Network: n, MaxNodeCalls: many, MaxAgentCalls: many,
		System:    actor.NewSystem(actor.Config{Mailbox: crowded}),
		Authorize: func(community.Peer, community.Call) error { return nil }})
	handled := newTally()
	stuck := func(ctx context.Context, _ community.Signal) (community.Reply, error) {
		fmt.Println("called")
		return stuck(ctx, community.Signal{})
	}
	_, err = c.Spawn(context.Background(), "worker", func(community.Member) (community.Agent, error) { return worker{handled}, nil })
	if err := errors.Join(err, c.Offer(community.Capability{Name: "stuck"}, stuck), c.Offer(community.Capability{Name: "echo"}, echo),
		c.Offer(community.Capability{Name: "usage"}, usage),
		c.Offer(community.Capability{Name: "handled"}, handled.wait)); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); stop() }()
	fmt.Println(id.ID(), n.Addr())
	return c.Run(ctx)
}

// child is a node in a process of its own.
type child struct {
	*exec.Cmd
	out  *bufio.Scanner
	hint discovery.Candidate
	// floors is where a benchmark's child serves plain gRPC, and web where it accepts WebSockets.
	floors, web string
}

func (l *lan) child(env ...string) *child {
	l.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		l.t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env, cmd.Stderr = append(append(os.Environ(), childEnv+"="+l.Dir()), env...), os.Stderr
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		stdin.Close()
		_ = cmd.Wait()
	})
	c := &child{Cmd: cmd, out: bufio.NewScanner(stdout)}
	if len(env) > 0 {
		c.floors, c.web = c.line(l.t), c.line(l.t)
	}
	id, addr, _ := strings.Cut(c.line(l.t), " ")
	c.hint = discovery.Candidate{Key: id, Node: id, Addrs: []netip.AddrPort{netip.MustParseAddrPort(addr)}}
	return c
}

func (c *child) line(t testing.TB) string {
	t.Helper()
	if !c.out.Scan() {
		t.Fatalf("the node's process ended: %v", c.out.Err())
	}
	return c.out.Text()
}
