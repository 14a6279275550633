//go:build linux

package symbiotest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"symbio/internal/community/waittest"

	statedir "symbio/internal/agent/node/state"
	symbiov1 "symbio/proto/symbio/v1"

	"google.golang.org/protobuf/types/known/durationpb"
)

// Lab is a cluster on the test's switch. Its machines share one state directory, that of the cluster's authority, so
// that every node is of the cluster from its first start: how nodes of other machines join is shown elsewhere.
type Lab struct {
	T     *testing.T
	State statedir.Dir
	Hosts []*Host
	Nodes map[string]*LabNode
	// Program is the binary of the nodes that are started next, by default this one.
	Program string
}

// LabNode is a node of the lab, and all it ever said.
type LabNode struct {
	*Process
	lab    *Lab
	Name   string
	Host   *Host
	Client symbiov1.ControlClient

	mu   sync.Mutex
	said []Line // guarded by mu
	over bool   // it says nothing more; guarded by mu
}

// NewLab makes a cluster of machines that are plugged in already, or will be.
func NewLab(t *testing.T, hosts ...*Host) *Lab {
	t.Helper()
	for _, h := range hosts {
		h.State = hosts[0].State
	}
	hosts[0].Symbio("cluster", "init", "--name", "lab", "--node", "first")
	config := "capabilities:\n  - {name: slow, description: Takes its time, exec: [sh, -c, sleep 1; echo 1], concurrency: 64}\n" +
		"authorize:\n  - {from: \"*\", invoke: [\"*\"]}\n"
	if err := os.WriteFile(filepath.Join(hosts[0].State, "lab.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return &Lab{T: t, Hosts: hosts, State: statedir.Dir(filepath.Join(hosts[0].State, "symbio")), Nodes: map[string]*LabNode{}, Program: "symbio"}
}

// Up starts a node, which listens on every address of its machine, on the cluster's usual port or the one given.
func (l *Lab) Up(h *Host, name string, port ...int) *LabNode {
	l.T.Helper()
	listen := fmt.Sprintf(":%d", append(port, 7946)[0])
	cmd := h.Inside(l.Program, "up", "--json", "--name", name, "--listen", listen, "--config", filepath.Join(h.State, "lab.yaml"))
	n := &LabNode{Process: Started(l.T, cmd), lab: l, Name: name, Host: h}
	var reading sync.WaitGroup
	l.T.Cleanup(func() { n.Cmd.Process.Kill(); reading.Wait() })
	reading.Go(func() {
		for said := range n.Lines {
			if said.Time.IsZero() { // what is no event
				said.Time = time.Now()
			}
			n.mu.Lock()
			n.said = append(n.said, said)
			n.mu.Unlock()
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.over = true
	})
	conn, err := l.State.Node(name).Dial()
	if err != nil {
		l.T.Fatal(err)
	}
	l.T.Cleanup(func() { conn.Close() })
	n.Client = symbiov1.NewControlClient(conn)
	l.Nodes[name] = n
	return n
}

// Ready waits until the node is ready.
func (n *LabNode) Ready() Line {
	n.lab.T.Helper()
	return n.Says("ready", time.Time{}, func(l Line) bool { return l.Type == "ready" })
}

// Says waits until the node has said since a time what fits.
func (n *LabNode) Says(what string, since time.Time, fits func(Line) bool) (found Line) {
	n.lab.T.Helper()
	waittest.Until(n.lab.T, n.Name+" says "+what, func() (any, bool) {
		over := n.isOver()
		all := n.LinesSince(since, fits)
		if len(all) > 0 {
			found = all[0]
		} else if over {
			n.lab.T.Fatalf("%s ended before it said %s:\n%s", n.Name, what, n.Stderr())
		}
		return n.LinesSince(since, func(Line) bool { return true }), len(all) > 0
	})
	return found
}

func (n *LabNode) isOver() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.over
}

// LinesSince is what the node has said since a time and fits.
func (n *LabNode) LinesSince(since time.Time, fits func(Line) bool) (out []Line) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.said {
		if !l.Time.Before(since) && fits(l) {
			out = append(out, l)
		}
	}
	return out
}

func (n *LabNode) signal(s os.Signal) {
	n.lab.T.Helper()
	if err := n.Cmd.Process.Signal(s); err != nil {
		n.lab.T.Fatal(err)
	}
}

// Freeze stops the node's process as a debugger does, and thaw lets it go on.
func (n *LabNode) Freeze() { n.lab.T.Helper(); n.signal(syscall.SIGSTOP) }

func (n *LabNode) Thaw() { n.lab.T.Helper(); n.signal(syscall.SIGCONT) }

// Sees is whom the node sees available: the ids by name. It is nil when the node does not answer.
func (n *LabNode) Sees() map[string]string {
	reply, err := n.Client.Members(waittest.Context(n.lab.T), &symbiov1.MembersRequest{})
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

// Peer is what the node knows of the connection to another; nil when it lists none of that name or id.
func (n *LabNode) Peer(name string) *symbiov1.Node {
	reply, err := n.Client.Nodes(waittest.Context(n.lab.T), &symbiov1.NodesRequest{})
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

// callTimeout is what the calls of a test give to the nodes: as much as any machine needs.
const callTimeout = time.Hour

// Call is one call and how it ended.
type Call struct {
	Begun, Ended time.Time
	Err          error
}

// Calls has callers call a capability of another node one after the other until end is closed, or, if end is nil, until
// one of their calls fails: on a busy machine a link may break without the test's doing. done returns all calls once
// none is under way.
func (n *LabNode) Calls(callers int, capability, on string, end <-chan struct{}) (done func() []Call) {
	var mu sync.Mutex
	var all []Call
	var calling sync.WaitGroup
	for range callers {
		calling.Go(func() {
			for {
				c := Call{Begun: time.Now()}
				_, c.Err = n.Client.Call(n.lab.T.Context(), &symbiov1.CallRequest{
					Capability: capability, On: on, Timeout: durationpb.New(callTimeout),
				})
				c.Ended = time.Now()
				mu.Lock()
				all = append(all, c)
				mu.Unlock()
				select {
				case <-end:
					return
				default:
				}
				if c.Err == nil {
					continue
				}
				if end == nil {
					return
				}
				Pause(n.lab.T, 100*time.Millisecond) // the node is looked for, and there again soon
			}
		})
	}
	return func() []Call { calling.Wait(); return all }
}

// CPU is how much processor time the node has used since its start.
func (n *LabNode) CPU() time.Duration {
	n.lab.T.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.Cmd.Process.Pid))
	if err != nil {
		n.lab.T.Fatal(err)
	}
	var ticks time.Duration
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	for _, f := range fields[11:13] { // user and system (proc(5)), in hundredths of a second wherever Linux runs
		n, _ := strconv.Atoi(f)
		ticks += time.Duration(n)
	}
	return ticks * 10 * time.Millisecond
}

// Peak is the most memory that the node ever had, in MiB.
func (n *LabNode) Peak() int {
	n.lab.T.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.Cmd.Process.Pid))
	if err != nil {
		n.lab.T.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "VmHWM:")
	kib := 0
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		n.lab.T.Fatal(err)
	}
	return kib >> 10
}
