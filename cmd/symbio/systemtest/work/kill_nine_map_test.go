//go:build system && linux

package work_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"symbio/cmd/symbio/symbiotest"

	"golang.org/x/sync/errgroup"
)

// mapNode is a node and a model for the agents of symbio map, whose beginnings are counted.
type mapNode struct {
	*symbiotest.CrashNode
	mu    sync.Mutex
	begun map[string]int // agents by their task; guarded by mu
	asked chan string    // gets the task of an agent whose answer is held
	free  func()         // lets held answers go
}

const workerDefinition = "---\nname: worker\ndescription: Does a part of the work.\n---\nYou do a part of the work.\n"

const steadyDefinition = "---\nname: steady\ndescription: Does a part of the work.\nrepeatable: true\n---\nYou do a part of the work.\n"

// newMapNode starts a node with the agents worker and steady. Answers to the task held wait.
func newMapNode(t *testing.T, held string) *mapNode {
	t.Helper()
	binary, err := exec.LookPath("symbio")
	if err != nil {
		t.Fatal(err)
	}
	answer := make(chan struct{})
	n := &mapNode{begun: map[string]int{}, asked: make(chan string, 100), free: sync.OnceFunc(func() { close(answer) })}
	m := symbiotest.NewStrictModel(t, func(history []symbiotest.ModelMessage) symbiotest.ModelAnswer {
		task := strings.TrimSpace(history[0].Text)
		n.mu.Lock()
		n.begun[task]++
		n.mu.Unlock()
		if task == held {
			n.asked <- task
			<-answer
		}
		return symbiotest.ModelAnswer{Text: "did " + task}
	})
	t.Cleanup(n.free) // before the end of the model, which waits for its answers
	n.CrashNode = symbiotest.NewCrashNode(t, binary, symbiotest.ShortDir(t), "placing", "127.0.0.1:0", "openai", m, symbiotest.LoneConfig)
	n.Write("agents/worker.md", workerDefinition, 0o600)
	n.Write("agents/steady.md", steadyDefinition, 0o600)
	n.Start("")
	return n
}

// command is symbio map for the lines of the file items; its state directory is the node's own, or that of a proxy.
func (n *mapNode) command(state, agent string, parallel int) *exec.Cmd {
	cmd := exec.Command(n.Binary, "map", "--node", n.Name, "--agent", agent, "--task", "Part {item}", "--lines", "items", "--out", "out", "--parallel", fmt.Sprint(parallel))
	cmd.Dir, cmd.Env = n.Dir, append(os.Environ(), "HOME="+n.Dir, "XDG_STATE_HOME="+state, "XDG_CONFIG_HOME="+n.Dir)
	return cmd
}

// outcomes are the latest lines of each item in the journal or the output.
func (n *mapNode) outcomes(file string) map[int]mapped {
	all := map[int]mapped{}
	text, _ := os.ReadFile(filepath.Join(n.Dir, file)) // it may not be there yet
	for line := range bytes.Lines(text) {
		var m mapped
		if json.Unmarshal(line, &m) == nil { // the latest one may not be whole yet
			all[m.Index] = m
		}
	}
	return all
}

// controlProxy passes what a command and a node say to each other. After the message with the text task, it holds back what
// the command says (mute), or what the node says from the text hold on.
type controlProxy struct {
	task, hold string
	mute       bool

	mu    sync.Mutex
	asked bool          // the task was sent; guarded by mu
	held  bool          // the node has said hold; guarded by mu
	seen  chan struct{} // closed then, once
}

// fromCommand reports whether data is held back.
func (p *controlProxy) fromCommand(data []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.asked
	p.asked = p.asked || bytes.Contains(data, []byte(p.task))
	return before && p.mute
}

// fromNode reports whether data is held back.
func (p *controlProxy) fromNode(data []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked && !p.held && bytes.Contains(data, []byte(p.hold)) {
		p.held = true
		close(p.seen)
	}
	return p.held && !p.mute
}

// serve passes on the connections to a socket until the listener is closed.
func (p *controlProxy) serve(l net.Listener, socket string) error {
	var g errgroup.Group
	for {
		front, err := l.Accept()
		if err != nil {
			return g.Wait()
		}
		back, err := net.Dial("unix", socket)
		if err != nil {
			front.Close()
			continue
		}
		pass := func(from, to net.Conn, hold func([]byte) bool) error {
			defer to.Close()
			data := make([]byte, 64<<10)
			for {
				n, err := from.Read(data)
				if err != nil {
					return nil // one of both has ended
				}
				if !hold(data[:n]) {
					_, _ = to.Write(data[:n]) // the next Read tells
				}
			}
		}
		g.Go(func() error { return pass(front, back, p.fromCommand) })
		g.Go(func() error { return pass(back, front, p.fromNode) })
	}
}

// killProxied starts the command through the proxy, and kills it when the moment has come. It returns when nothing of the
// command is left.
func (n *mapNode) killProxied(p *controlProxy, agent string, moment func() bool) {
	n.T.Helper()
	state := symbiotest.ShortDir(n.T)
	socket := filepath.Join(state, "symbio", "nodes", n.Name, "control.sock")
	if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
		n.T.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		n.T.Fatal(err)
	}
	var g errgroup.Group
	g.Go(func() error { return p.serve(l, filepath.Join(n.State(), "control.sock")) })
	cmd := n.command(state, agent, 1)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		n.T.Fatal(err)
	}
	n.T.Cleanup(func() { _ = cmd.Process.Kill() })
	symbiotest.Await(n.T, "the moment to kill the command", moment)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	l.Close()
	_ = g.Wait() // it has no errors
	if n.T.Failed() {
		n.T.Logf("the command said %s", said.String())
	}
}

// A command is killed at each point between the place of an item and its result. The item before it keeps its result. An item
// that had not begun is done by the same command; one that may have is lost, unless its agent is repeatable.
func TestItemOfKilledMapIsDoneOnceOrLost(t *testing.T) {
	t.Parallel()
	for _, point := range []struct {
		name, held, hold string
		mute             bool
		state            string // that the journal has of the item
		begun            int    // agents that have begun with it
	}{
		{"it has a place", "", "placing", false, "waiting", 0},
		{"its place is kept", "", "placing", true, "begun", 0},
		{"its agent works", "Part 2", "no such text", false, "begun", 1},
		{"its result comes", "", "did Part 2", false, "begun", 1},
	} {
		for _, agent := range []string{"worker", "steady"} {
			t.Run(point.name+"/"+agent, func(t *testing.T) {
				t.Parallel()
				n := newMapNode(t, point.held)
				n.Write("items", "1\n2\n", 0o600)
				p := &controlProxy{task: "Part 2", hold: point.hold, mute: point.mute, seen: make(chan struct{})}
				moment := func() bool {
					select {
					case <-p.seen:
					case <-n.asked:
						close(p.seen)
					default:
						return false
					}
					return n.outcomes("out.part")[1].State == point.state
				}
				n.killProxied(p, agent, moment)
				n.free()
				if point.state == "begun" && agent == "worker" { // the next command is killed before it hears that the item is lost
					p = &controlProxy{task: "Part 2", hold: "it was begun before", seen: make(chan struct{})}
					n.killProxied(p, agent, moment)
				}
				if before := n.outcomes("out.part")[1]; before.State != point.state {
					t.Errorf("after the command was killed the journal has %+v, want %s", before, point.state)
				}
				out, err := n.command(n.Dir, agent, 1).CombinedOutput()
				lost, begun := point.state == "begun" && agent == "worker", point.begun
				if !lost {
					begun++
				}
				n.mu.Lock()
				defer n.mu.Unlock()
				all := n.outcomes("out")
				if first := all[0]; first.Result != "did Part 1" || n.begun["Part 1"] != 1 {
					t.Errorf("the item before it: %+v, begun %d times", first, n.begun["Part 1"])
				}
				if got := all[1]; len(all) != 2 || got.Lost != lost || (got.Result == "did Part 2") == lost || (err != nil) != lost || n.begun["Part 2"] != begun {
					t.Errorf("afterwards %+v, begun %d times, want %d; %v: %s", got, n.begun["Part 2"], begun, err, out)
				}
			})
		}
	}
}

// A command with many items at once is killed again and again, at random moments.
func TestItemsOfMapKilledAtAnyMomentAreDoneOnceOrLost(t *testing.T) {
	t.Parallel()
	const items = 40
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i, agent := range []string{"worker", "steady"} {
		t.Run(agent, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			n := newMapNode(t, "")
			var lines bytes.Buffer
			for item := range items {
				fmt.Fprintln(&lines, item)
			}
			n.Write("items", lines.String(), 0o600)
			var out []byte // of the latest command
			for kills := 0; kills < 10 && len(n.outcomes("out")) == 0; kills++ {
				var said bytes.Buffer
				cmd := n.command(n.Dir, agent, 6)
				cmd.Stderr = &said
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				timer := time.AfterFunc(time.Duration(random.IntN(300))*time.Millisecond, func() { _ = cmd.Process.Kill() })
				if kills >= 5 {
					timer.Stop()
				}
				_ = cmd.Wait() // with what is lost it fails
				timer.Stop()
				out = said.Bytes()
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			all, lost := n.outcomes("out"), 0
			for item := range items {
				task := fmt.Sprintf("Part %d", item)
				switch got, begun := all[item], n.begun[task]; {
				case got.Result == "did "+task && !got.Lost && (begun == 1 || agent == "steady" && begun > 0):
				case got.Lost && agent == "worker" && begun <= 1:
					lost++
				default:
					t.Errorf("item %d: %+v, begun %d times", item, got, begun)
				}
			}
			t.Logf("%d lost", lost)
			if len(all) != items {
				t.Errorf("%d items have an outcome, want %d: %s", len(all), items, out)
			}
		})
	}
}
