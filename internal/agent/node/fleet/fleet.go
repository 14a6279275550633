// Package fleet has the view of the whole community for people: the nodes, the agents on them with
// their running calls, what they spend, and what happens.
//
// Each node has its own part, from its agents and its events. It gives it to other nodes by the
// capability fleet.view, one long poll after the other: an answer has what changed after the version
// that the caller names, so a node keeps nothing about those that watch it. Fleet merges the parts
// of all nodes for its watchers. Without a watcher nothing of this runs.
//
// A part of another node is untrusted: it is bounded, made printable, and can only be about that
// node and its own agents.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/metrics"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"symbio/agent"
	"symbio/agent/event"
	"symbio/community"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/transport/grpcpeer"
)

// Community is the part of *community.Community that a Fleet uses.
type Community interface {
	Offer(capability community.Capability, provide community.Provider, opts ...community.OfferOption) error
	Member(id community.MemberID) (community.Member, bool)
	Invoke(ctx context.Context, id community.MemberID, capability string, payload community.Signal) (community.Reply, error)
}

// Agents is the part of *agent.Factory that a Fleet uses.
type Agents interface {
	Activities() []agent.Activity
	Activity(id community.MemberID) (agent.Activity, bool)
	Used() agent.ModelUsage
}

// Config sets up a Fleet. Fields without a default are required.
type Config struct {
	Node    community.NodeID
	Name    string // the name of the node
	Version string // of the program
	Started time.Time
	// Community reaches other nodes, Nodes returns what is known of them, this node first.
	Community Community
	Nodes     func() []grpcpeer.NodeStatus
	Agents    Agents
	// Events has what happens on this node.
	Events *event.Stream
	// MaxMessage is the largest message between nodes, in bytes. Default 1 MiB.
	MaxMessage int
	// Health returns what the process takes, and what to mend, a line each. Default: nothing.
	Health func() (*symbiov1.Process, []string)
}

const (
	// viewLinger is how long the nodes are followed after the last watcher has gone: a page that is
	// loaded again need not begin anew.
	viewLinger = 10 * time.Second
	// nodesInterval is how often the states of the nodes are looked at.
	nodesInterval = 500 * time.Millisecond
	// watchInterval is the least time between two changes for a watcher.
	watchInterval = 250 * time.Millisecond
	// maxChange is the largest change for a watcher in bytes: less than the 4 MiB that gRPC accepts by
	// default, as no entry is larger than the difference.
	maxChange = 3 << 20
	// sendTimeout is how long a watcher may take to receive a change.
	sendTimeout = 10 * time.Second
	// settleTime is how long a watcher that wants everything once waits for the first answers of the
	// nodes.
	settleTime = 3 * time.Second
)

// ErrSlow is the error of a watcher that did not receive a change in time.
var ErrSlow = errors.New("the view of the community was not read in time, so it ended; open it again")

// Fleet is the view of the whole community, merged from the parts of all nodes. It is safe for
// concurrent use.
type Fleet struct {
	cfg    Config
	own    *part
	view   *table
	demand *demand
	ended  context.Context // ends with Run
	end    context.CancelCauseFunc

	// watches are the calls of Watch and the changes that they send. Add is called with mu held and
	// before stopped is set, or by a call that counts itself.
	watches sync.WaitGroup

	mu      sync.Mutex
	stopped bool                         // no Watch begins any more; guarded by mu
	nodes   map[community.NodeID]*member // those in the view while it is followed; guarded by mu
	settled chan struct{}                // closed when each connected node has answered or failed; guarded by mu
}

// New returns a Fleet. Call Run, which does its work, and Offer.
func New(cfg Config) *Fleet {
	cfg.MaxMessage = cmp.Or(cfg.MaxMessage, 1<<20)
	if cfg.Health == nil {
		cfg.Health = func() (*symbiov1.Process, []string) { return nil, nil }
	}
	f := &Fleet{cfg: cfg, own: newPart(cfg), view: newTable(), demand: newDemand(viewLinger), settled: make(chan struct{})}
	f.ended, f.end = context.WithCancelCause(context.Background())
	return f
}

// Run does the work for watchers, of this node and of others, until ctx ends. It returns when all
// watchers are gone.
func (f *Fleet) Run(ctx context.Context) error {
	var g sync.WaitGroup
	g.Go(func() { f.own.demand.run(ctx, f.own.follow) })
	f.demand.run(ctx, f.follow)
	f.mu.Lock()
	f.stopped = true
	f.mu.Unlock()
	f.end(community.ErrStopped)
	g.Wait()
	f.watches.Wait()
	return nil
}

// Watch sends everything and then what changes, at most every quarter of a second, until ctx ends.
// With once it waits a moment for the nodes that have not answered yet, sends everything and
// returns. send must not change its argument. Its error ends the watch. If one send does not return within
// sendTimeout, Watch returns ErrSlow, and send is not called again; the caller must then make it
// return. community.ErrStopped: the node stops.
func (f *Fleet) Watch(ctx context.Context, once bool, send func(*symbiov1.FleetChange) error) error {
	f.mu.Lock()
	if f.stopped {
		f.mu.Unlock()
		return community.ErrStopped
	}
	f.watches.Add(1)
	f.mu.Unlock()
	defer f.watches.Done()
	defer f.demand.acquire()()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(f.ended, func() { cancel(context.Cause(f.ended)) })()
	if once {
		f.waitSettled(ctx)
	}
	for at := (cursor{}); ; {
		if err := f.view.wait(ctx, at); err != nil {
			return err
		}
		p, next := f.view.since(at, maxChange)
		if p.GetWhole() && at != (cursor{}) {
			return ErrSlow // too many removals were missed to name them
		}
		at = next
		if err := f.send(send, p.GetChange()); err != nil {
			return err
		}
		if p.GetMore() {
			continue
		}
		if once {
			return nil
		}
		if !sleep(ctx, watchInterval) {
			return context.Cause(ctx)
		}
	}
}

// send sends one change. The goroutine outlives a send that takes too long; Run waits for it.
func (f *Fleet) send(send func(*symbiov1.FleetChange) error, c *symbiov1.FleetChange) error {
	sent := make(chan error, 1)
	f.watches.Go(func() { sent <- send(c) })
	timer := time.NewTimer(sendTimeout)
	defer timer.Stop()
	select {
	case err := <-sent:
		return err
	case <-timer.C:
		return fmt.Errorf("%w: one message waited for %v", ErrSlow, sendTimeout)
	}
}

// waitSettled waits until each connected node has answered, at most for settleTime.
func (f *Fleet) waitSettled(ctx context.Context) {
	f.mu.Lock()
	settled := f.settled
	f.mu.Unlock()
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	select {
	case <-settled:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// member is a node in the view. Fleet.mu guards it.
type member struct {
	status   *symbiov1.FleetNode // as this node sees it
	part     *symbiov1.FleetNode // what the node says of itself; nil = nothing
	withheld string              // why its agents are not shown; "" = they are
	answered bool                // its first poll is over
	stop     context.CancelFunc  // ends its polls; nil = it is not polled
}

// follow keeps the view up to date until ctx ends.
func (f *Fleet) follow(ctx context.Context) {
	var polls sync.WaitGroup
	f.mu.Lock()
	f.nodes = map[community.NodeID]*member{}
	f.mu.Unlock()
	f.view.open(func(*table) {})
	defer func() {
		polls.Wait()
		f.view.close()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.settled = make(chan struct{})
	}()
	for {
		f.updateNodes(ctx, &polls)
		if !sleep(ctx, nodesInterval) {
			return
		}
	}
}

// updateNodes takes up the states of the nodes. It polls each connected node once.
func (f *Fleet) updateNodes(ctx context.Context, polls *sync.WaitGroup) {
	known := map[community.NodeID]bool{}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.cfg.Nodes() {
		if s.ID == "" || known[s.ID] { // no node, or a claim beside what is proven
			continue
		}
		known[s.ID] = true
		m := f.nodes[s.ID]
		if m == nil {
			m = &member{}
			f.nodes[s.ID] = m
		}
		m.status = nodeOf(s)
		reached := s.State == grpcpeer.StateSelf || s.State == grpcpeer.StateConnected
		switch {
		case reached && m.stop == nil:
			m.answered = false
			var polling context.Context
			polling, m.stop = context.WithCancel(ctx)
			polls.Go(func() { f.poll(polling, s.ID) })
		case !reached && m.stop != nil:
			f.forget(s.ID, m)
		}
		f.show(s.ID, m)
	}
	for id, m := range f.nodes {
		if !known[id] {
			f.forget(id, m)
			delete(f.nodes, id)
			f.view.update(func(t *table) { t.removeNode(string(id)) })
		}
	}
	f.checkSettled()
}

// forget ends the polls of a node and removes its agents from the view. The caller must hold mu.
func (f *Fleet) forget(id community.NodeID, m *member) {
	if m.stop != nil {
		m.stop()
	}
	m.stop, m.part, m.withheld = nil, nil, ""
	f.view.update(func(t *table) { t.removeAgents(string(id), nil) })
}

// show sets a node in the view. The caller must hold mu.
func (f *Fleet) show(id community.NodeID, m *member) {
	n := proto.CloneOf(m.status)
	n.Self = id == f.cfg.Node
	if m.part != nil {
		proto.Merge(n, m.part)
	}
	if m.withheld != "" {
		n.Withheld = &m.withheld
	}
	f.view.update(func(t *table) { t.putNode(n) })
}

// checkSettled closes settled when each polled node has answered. The caller must hold mu.
func (f *Fleet) checkSettled() {
	for _, m := range f.nodes {
		if m.stop != nil && !m.answered {
			return
		}
	}
	select {
	case <-f.settled:
	default:
		close(f.settled)
	}
}

// nodeOf returns the message of a node as this node sees it. Name and protocol are what the node
// says.
func nodeOf(s grpcpeer.NodeStatus) *symbiov1.FleetNode {
	n := &symbiov1.FleetNode{
		Id: string(s.ID), Name: visible.Line(s.Name, maxName), State: string(s.State), Addr: s.Addr, RttMs: float64(s.RTT.Microseconds()) / 1000,
		CertDays: int32(s.CertDaysLeft), Protocol: visible.Line(s.Protocol, maxName),
	}
	if s.Why != "" {
		n.Why = new(visible.Line(s.Why, maxText))
	}
	return n
}

// Process returns the memory and the number of goroutines of this process. It reads
// runtime/metrics, which does not stop the world, so that it may be called often.
func Process() *symbiov1.Process {
	all := []metrics.Sample{
		{Name: "/sched/goroutines:goroutines"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(all)
	figure := func(i int) uint64 {
		if all[i].Value.Kind() != metrics.KindUint64 {
			return 0 // another version of Go may not have this metric
		}
		return all[i].Value.Uint64()
	}
	// The memory without the pages that the runtime has returned to the operating system.
	return &symbiov1.Process{Goroutines: uint32(figure(0)), Heap: float64(figure(1)), Memory: float64(figure(2) - figure(3))}
}
