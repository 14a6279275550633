//go:build unix

package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"symbio/agent"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/community"
	"symbio/internal/community/waittest"
	"symbio/internal/security/permission/authorize"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/transport/grpcpeer"
	"symbio/transport/grpcpeer/grpcpeertest"
)

// The load that the view is designed for: each agent makes a turn with a call of a tool every
// loadTurn.
const (
	loadNodes    = 20
	loadAgents   = 500
	loadWatchers = 10
	loadTurn     = 2 * time.Second
	loadTime     = 10 * time.Second
)

// loadNode is a node whose agents are figures only, so that what is measured is the view.
type loadNode struct {
	*Fleet
	events *event.Stream
	name   string

	mu     sync.Mutex
	agents map[community.MemberID]*agent.Activity // guarded by mu
	ids    []community.MemberID
}

func (n *loadNode) Activities() (all []agent.Activity) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range n.agents {
		all = append(all, *a)
	}
	return all
}

func (n *loadNode) Activity(id community.MemberID) (agent.Activity, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	a, ok := n.agents[id]
	if !ok {
		return agent.Activity{}, false
	}
	return *a, true
}

func (n *loadNode) Used() agent.ModelUsage { return agent.ModelUsage{} }

// turn lets an agent make a turn with one call.
func (n *loadNode) turn(id community.MemberID) {
	change := func(f func(*agent.Activity)) {
		n.mu.Lock()
		defer n.mu.Unlock()
		f(n.agents[id])
	}
	publish := func(e event.Event) {
		e.Agent, e.Name = string(id), "agent"
		n.events.Publish(e)
	}
	change(func(a *agent.Activity) {
		a.Working, a.Turn, a.Context, a.Spent.Input = true, a.Turn+1, a.Context+500, a.Spent.Input+5000
		a.Calls = []agent.RunningCall{{ID: "call_1", Tool: "Bash", Args: `{"command":"go test ./..."}`, Since: time.Now()}}
	})
	publish(event.Event{Type: event.TypeTurn, Part: event.Turn{Turn: 1, Usage: &llm.Usage{Input: 5000, Output: 300}, Context: 5000, Window: 200_000}})
	publish(event.Event{Type: event.TypeToolCall, Part: event.Tool{Tool: "Bash", Call: "call_1", Args: []byte(`{"command":"go test ./..."}`)}})
	for range 20 {
		publish(event.Event{Type: event.TypeText, Text: "a piece of an answer", Part: event.Turn{Turn: 1}})
	}
	change(func(a *agent.Activity) { a.Calls = nil })
	publish(event.Event{Type: event.TypeToolResult, Text: "ok " + fmt.Sprint(make([]byte, 1000)), Part: event.Tool{Tool: "Bash", Call: "call_1"}})
}

// startLoad starts the nodes; their agents work until ctx ends.
func startLoad(b *testing.B, ctx context.Context, running *sync.WaitGroup) []*loadNode {
	network := grpcpeertest.NewLAN(b, grpcpeertest.Config{Delay: time.Millisecond})
	rules, err := authorize.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	var nodes []*loadNode
	var known []*place
	for i := range loadNodes {
		n := &loadNode{name: fmt.Sprintf("node%02d", i), events: event.NewStream("x"), agents: map[community.MemberID]*agent.Activity{}}
		id := grpcpeertest.ID(n.name)
		net := community.New(community.Config{Node: id, Name: n.name, Network: network.Join(n.name).Network, Authorize: func(from community.Peer, c community.Call) error {
			rules.Judge(authorize.Principal{Node: string(from.ID), Authority: "local"}, authorize.KindInvoke, c.Capability)
			return nil
		}})
		for j := range loadAgents / loadNodes {
			id := community.MemberID(fmt.Sprintf("%016x%016x", i+1, j+1))
			n.ids = append(n.ids, id)
			n.agents[id] = &agent.Activity{Member: community.Member{ID: id, Name: fmt.Sprint("agent-", j)}, Definition: "general", Task: "Find out why the tests of the parser fail, and mend it", Model: "a-model", Since: time.Now(), Window: 200_000, PlanSteps: 5}
		}
		seen := &place{id: id, community: net}
		n.Fleet = New(Config{Node: id, Name: n.name, Version: "v1", Started: time.Now(), Community: net, Nodes: seen.nodes, Agents: n, Events: n.events})
		if err := n.Offer(); err != nil {
			b.Fatal(err)
		}
		running.Go(func() { _ = net.Run(ctx) })
		running.Go(func() { _ = n.Run(ctx) })
		nodes, known = append(nodes, n), append(known, seen)
	}
	for _, n := range known {
		waittest.Until(b, n.community.Name()+" sees all nodes", func() (any, bool) {
			all := n.nodes()
			unavailable := func(s grpcpeer.NodeStatus) bool { return s.State == grpcpeer.StateUnavailable }
			return len(all), len(all) == loadNodes && !slices.ContainsFunc(all, unavailable)
		})
	}
	for _, n := range nodes {
		for _, id := range n.ids {
			running.Go(func() {
				for sleep(ctx, loadTurn/2+rand.N(loadTurn)) {
					n.turn(id)
				}
			})
		}
	}
	return nodes
}

// used returns the processor time of this process.
func used(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// measure returns how much of a core the process takes in the next time, and its live heap then.
func measure(b *testing.B) (core float64, heap uint64) {
	before, began := used(b), time.Now()
	time.Sleep(loadTime)
	core = float64(used(b)-before) / float64(time.Since(began))
	runtime.GC()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return core, live[0].Value.Uint64()
}

// BenchmarkView measures what the view costs a node of 20 with 500 agents while 10 watchers look,
// each on a node of its own or all on one: the part of a core and of the heap for each node, beyond
// what the same community takes without watchers. Run it with -benchtime 1x.
func BenchmarkView(b *testing.B) {
	for name, where := range map[string]func(i int) int{"watchers on 10 nodes": func(i int) int { return i }, "watchers on one node": func(int) int { return 0 }} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				ctx, stop := context.WithCancel(context.Background())
				var running sync.WaitGroup
				nodes := startLoad(b, ctx, &running)
				time.Sleep(20 * time.Second) // their streams are full of events
				idleCore, idleHeap := measure(b)
				pictures := make([]*picture, loadWatchers)
				var changes atomic.Int64
				for i := range pictures {
					pictures[i] = newPicture()
					running.Go(func() {
						_ = nodes[where(i)].Watch(ctx, false, func(c *symbiov1.FleetChange) error {
							changes.Add(int64(len(c.GetAgents())))
							c.Events = nil // they would count for the heap of the watcher
							return pictures[i].apply(c)
						})
					})
				}
				time.Sleep(3 * time.Second)
				changes.Store(0)
				core, heap := measure(b)
				perSecond := float64(changes.Load()) / loadTime.Seconds()
				for i, p := range pictures {
					if len(p.names()) != loadAgents {
						b.Errorf("watcher %d sees %d agents", i, len(p.names()))
					}
				}
				stop()
				running.Wait()
				b.ReportMetric(100*(core-idleCore)/loadNodes, "%core/node")
				b.ReportMetric(100*idleCore/loadNodes, "%core/node-unwatched")
				b.ReportMetric((float64(heap)-float64(idleHeap))/1024/loadNodes, "KiB/node")
				b.ReportMetric(perSecond/loadWatchers, "agents/s-watcher")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}
