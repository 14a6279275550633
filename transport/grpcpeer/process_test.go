//go:build unix

package grpcpeer_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"symbio/actor"
	"symbio/community"
	"symbio/community/waittest"
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
	if os.Getenv(benchEnv) != "" {
		many = crowded
		serveFloors(id)
	}
	n, err := grpcpeer.New(grpcpeer.Config{Identity: id, Name: "child", Limits: grpcpeer.Limits{Streams: uint32(many)}})
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
	// floors is where a benchmark's child serves plain gRPC.
	floors string
}

func (l *lan) child(env ...string) *child {
	l.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		l.t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env, cmd.Stderr = append(append(os.Environ(), childEnv+"="+l.dir), env...), os.Stderr
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
		c.floors = c.line(l.t)
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

// promised says whether a time keeps its promise, where times are figures: make bench holds them against the clock.
func promised(took, promise time.Duration) bool {
	return os.Getenv("SYMBIO_FIGURES") == "" || took <= promise
}

func TestCallToAKilledProcessFailsAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process and opens sockets on 127.0.0.1")
	}
	l := newLAN(t)
	a, c := l.onLoopback("a"), l.child()
	a.network.AddHint(c.hint)
	node := community.NodeID(c.hint.Node)
	a.finds(node)
	called := make(chan error, 1)
	go func() {
		_, err := a.Invoke(waittest.Context(t), community.MemberID(node), "stuck", community.Signal{})
		called <- err
	}()
	c.line(t)
	killed := time.Now()
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	err := <-called
	took := time.Since(killed)
	t.Logf("the call failed %v after the kill", took)
	if !errors.Is(err, community.ErrUnavailable) || !promised(took, 100*time.Millisecond) {
		t.Errorf("the call failed after %v with %v, want %v within 100ms", took, err, community.ErrUnavailable)
	}
	a.sees("the node unavailable", func(all []community.Member) bool { return !available(all, node) })
}

func TestFrozenProcessComesBack(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process, opens sockets on 127.0.0.1 and takes 8 s")
	}
	l := newLAN(t)
	missed := make(chan struct{}, 64)
	a, c := l.onLoopback("a", func(cfg *grpcpeer.Config) {
		cfg.Report = func(e grpcpeer.Event) {
			if e.Kind == grpcpeer.Unreachable {
				missed <- struct{}{}
			}
		}
	}), l.child()
	a.network.AddHint(c.hint)
	node := community.NodeID(c.hint.Node)
	a.finds(node)
	frozen := time.Now()
	if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	a.sees("the node unavailable", func(all []community.Member) bool { return len(all) == 2 && !available(all, node) })
	if took := time.Since(frozen); !promised(took, 3*time.Second) {
		t.Errorf("the frozen node was lost after %v, want 3s", took)
	}
	<-missed // it accepts connections, as the kernel does for it, and says nothing
	if err := c.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	woken := time.Now()
	a.finds(node)
	if took := time.Since(woken); !promised(took, 5*time.Second) {
		t.Errorf("the node was back after %v, want 5s", took)
	}
	r, err := a.Invoke(waittest.Context(t), community.MemberID(node), "echo", community.Signal{Data: []byte("morning")})
	if err != nil || string(r.Data) != "morning" {
		t.Errorf("it answered %q, %v", r.Data, err)
	}
}
