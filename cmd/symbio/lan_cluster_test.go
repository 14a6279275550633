//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	statedir "symbio/agent/node/state"
	symbiov1 "symbio/proto/symbio/v1"
)

// lab is a cluster on the test's switch. Its machines share one state directory, that of the cluster's authority, so
// that every node is of the cluster from its first start: how nodes of other machines join is shown elsewhere.
type lab struct {
	t     *testing.T
	state statedir.Dir
	hosts []*host
	nodes map[string]*labNode
}

// labNode is a node of the lab, and all it ever said.
type labNode struct {
	*process
	lab    *lab
	name   string
	host   *host
	client symbiov1.ControlClient

	mu   sync.Mutex
	said []line // guarded by mu
}

// newLab makes a cluster of machines that are plugged in already, or will be.
func newLab(t *testing.T, hosts ...*host) *lab {
	t.Helper()
	for _, h := range hosts {
		h.state = hosts[0].state
	}
	hosts[0].symbio("cluster", "init", "--name", "lab", "--node", "first")
	config := "capabilities:\n  - {name: slow, description: Takes its time, exec: [sh, -c, sleep 1; echo 1], concurrency: 64}\n" +
		"authorize:\n  - {from: \"*\", invoke: [\"*\"]}\n"
	if err := os.WriteFile(filepath.Join(hosts[0].state, "lab.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return &lab{t: t, hosts: hosts, state: statedir.Dir(filepath.Join(hosts[0].state, "symbio")), nodes: map[string]*labNode{}}
}

// up starts a node, which listens on every address of its machine, on the cluster's usual port or the one given.
func (l *lab) up(h *host, name string, port ...int) *labNode {
	l.t.Helper()
	listen := fmt.Sprintf(":%d", append(port, 7946)[0])
	cmd := h.inside("symbio", "up", "--json", "--name", name, "--listen", listen, "--config", filepath.Join(h.state, "lab.yaml"))
	n := &labNode{process: started(l.t, cmd), lab: l, name: name, host: h}
	var reading sync.WaitGroup
	l.t.Cleanup(func() { n.cmd.Process.Kill(); reading.Wait() })
	reading.Go(func() {
		for said := range n.lines {
			if said.Time.IsZero() { // what is no event
				said.Time = time.Now()
			}
			n.mu.Lock()
			n.said = append(n.said, said)
			n.mu.Unlock()
		}
	})
	conn, err := l.state.Node(name).Dial()
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { conn.Close() })
	n.client = symbiov1.NewControlClient(conn)
	l.nodes[name] = n
	return n
}

// ready waits until the node is ready.
func (n *labNode) ready() line {
	n.lab.t.Helper()
	return n.says("ready", time.Time{}, func(l line) bool { return l.Type == "ready" })
}

// says waits until the node has said since a time what fits.
func (n *labNode) says(what string, since time.Time, fits func(line) bool) (found line) {
	n.lab.t.Helper()
	await(n.lab.t, n.name+" says "+what, limit, func() bool {
		all := n.heard(since, fits)
		if len(all) > 0 {
			found = all[0]
		}
		return len(all) > 0
	})
	return found
}

// heard is what the node has said since a time and fits.
func (n *labNode) heard(since time.Time, fits func(line) bool) (out []line) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.said {
		if !l.Time.Before(since) && fits(l) {
			out = append(out, l)
		}
	}
	return out
}

func (n *labNode) signal(s os.Signal) {
	n.lab.t.Helper()
	if err := n.cmd.Process.Signal(s); err != nil {
		n.lab.t.Fatal(err)
	}
}

// freeze stops the node's process as a debugger does, and thaw lets it go on.
func (n *labNode) freeze() { n.lab.t.Helper(); n.signal(syscall.SIGSTOP) }
func (n *labNode) thaw()   { n.lab.t.Helper(); n.signal(syscall.SIGCONT) }

// sees is whom the node sees available: the ids by name. It is nil when the node does not answer.
func (n *labNode) sees() map[string]string {
	ctx, cancel := context.WithTimeout(n.lab.t.Context(), time.Second)
	defer cancel()
	reply, err := n.client.Members(ctx, &symbiov1.MembersRequest{})
	if err != nil {
		return nil
	}
	out := map[string]string{}
	for _, m := range reply.GetMembers() {
		if m.GetAvailable() {
			out[m.GetName()] = m.GetId()
		}
	}
	return out
}

// peer is what the node knows of the connection to another; nil when it lists none of that name or id.
func (n *labNode) peer(name string) *symbiov1.Node {
	ctx, cancel := context.WithTimeout(n.lab.t.Context(), time.Second)
	defer cancel()
	reply, err := n.client.Nodes(ctx, &symbiov1.NodesRequest{})
	if err != nil {
		return nil
	}
	for _, p := range reply.GetNodes() {
		if p.GetName() == name || p.GetId() == name {
			return p
		}
	}
	return nil
}

// whole says whether each of the nodes sees all the others.
func whole(nodes ...*labNode) bool {
	for _, n := range nodes {
		seen := n.sees()
		for _, other := range nodes {
			if n != other && seen[other.name] == "" {
				return false
			}
		}
	}
	return true
}

// becomesWhole waits until each of the nodes sees all the others, prints how long that took, and wants it to keep the
// promise.
func becomesWhole(t *testing.T, what string, since time.Time, promise time.Duration, nodes ...*labNode) {
	t.Helper()
	await(t, what, limit, func() bool { return whole(nodes...) })
	within(t, what, since, time.Now(), promise)
}

// await polls until a condition holds, and fails when it does not in time.
func await(t *testing.T, what string, patience time.Duration, holds func() bool) {
	t.Helper()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for late := time.After(patience); !holds(); {
		select {
		case <-late:
			t.Fatalf("not in %v: %s", patience, what)
		case <-poll.C:
		}
	}
}

// call is one call and how it ended.
type call struct {
	begun, ended time.Time
	err          error
}

// calls has callers call a capability of another node one after the other until end is closed, or, if end is nil, until
// one of their calls fails: on a busy machine a link may break without the test's doing. done returns all calls once
// none is under way.
func (n *labNode) calls(callers int, capability, on string, end <-chan struct{}) (done func() []call) {
	var mu sync.Mutex
	var all []call
	var calling sync.WaitGroup
	for range callers {
		calling.Go(func() {
			for {
				c := call{begun: time.Now()}
				_, c.err = n.client.Call(n.lab.t.Context(), &symbiov1.CallRequest{
					Capability: capability, On: on, Timeout: durationpb.New(limit),
				})
				c.ended = time.Now()
				mu.Lock()
				all = append(all, c)
				mu.Unlock()
				select {
				case <-end:
					return
				default:
				}
				if c.err == nil {
					continue
				}
				if end == nil {
					return
				}
				select { // the node is looked for, and there again soon
				case <-end:
				case <-time.After(100 * time.Millisecond):
				}
			}
		})
	}
	return func() []call { calling.Wait(); return all }
}

// endedWell wants every call to have had a result or the error that its node is unavailable, and those under way at
// a time to have ended within the promise. It prints how many there were.
func endedWell(t *testing.T, calls []call, at time.Time, promise time.Duration) {
	t.Helper()
	results, cut, last := 0, 0, at
	for _, c := range calls {
		switch {
		case c.err == nil:
			results++
		case grpcstatus.Code(c.err) == codes.Unavailable:
			cut++
		default:
			t.Errorf("a call ended with %v, want a result or that the node is unavailable", c.err)
		}
		if c.begun.Before(at) && c.ended.After(last) {
			last = c.ended
		}
	}
	t.Logf("%d calls: %d results, %d ended as unavailable", len(calls), results, cut)
	if results == 0 || cut == 0 {
		t.Errorf("%d results and %d calls that were cut off, want some of both", results, cut)
	}
	within(t, "the last call under way ended", at, last, promise)
}

// cpu is how much processor time the node has used since its start.
func (n *labNode) cpu() time.Duration {
	n.lab.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.cmd.Process.Pid))
	if err != nil {
		n.lab.t.Fatal(err)
	}
	var ticks time.Duration
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	for _, f := range fields[11:13] { // user and system (proc(5)), in hundredths of a second wherever Linux runs
		n, _ := strconv.Atoi(f)
		ticks += time.Duration(n)
	}
	return ticks * 10 * time.Millisecond
}

// peak is the most memory that the node ever had, in MiB.
func (n *labNode) peak() int {
	n.lab.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.cmd.Process.Pid))
	if err != nil {
		n.lab.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "VmHWM:")
	kib := 0
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		n.lab.t.Fatal(err)
	}
	return kib >> 10
}
