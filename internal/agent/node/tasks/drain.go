package tasks

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"symbio/community"
	symbiov1 "symbio/proto/symbio/v1"
)

// The kinds of work; they are a contract with scripts.
const (
	WorkCall    = "call"    // a capability that another node called; the name is the capability's
	WorkLent    = "lent"    // agents that another node borrowed; the name is the node's
	WorkAgent   = "agent"   // an agent that has a task; the name is the agent's
	WorkCommand = "command" // what a command or a program of this machine waits for; the name is the method
)

// pollInterval is how often the work is counted while the node drains. It is short beside a task of a model.
const pollInterval = 200 * time.Millisecond

// GateParts are what a Gate needs of the parts of a node, which are replaced when the node gets another identity.
type GateParts struct {
	// Work returns the work that the Gate does not count itself: agents with a task, and agents that are lent.
	Work func() []*symbiov1.Work
	// Stop stops the node.
	Stop func()
}

// Gate lets a node finish its work before it is stopped: it counts the work that runs, and refuses new work while the node
// drains: tasks of this machine, agents that other nodes borrow, calls and signals of other nodes. It is safe for
// concurrent use. The zero Gate takes work.
type Gate struct {
	// Name is the name of the node; it must not change.
	Name string

	// Draining tells the other nodes.
	Draining community.Drain

	counts sync.Map // of *atomic.Int64 by workKey

	mu    sync.Mutex
	parts GateParts // guarded by mu
}

// workKey names what a Gate counts together.
type workKey struct{ kind, name string }

// Use sets the parts of the node.
func (g *Gate) Use(p GateParts) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.parts = p
}

// Check returns nil if the node takes new work, else a community.ErrBusy that says what to do.
func (g *Gate) Check() error {
	if !g.Draining.IsOn() {
		return nil
	}
	return community.DrainingError(g.Name)
}

// Counter returns the number of running works of a kind and a name. The caller adds 1 when a work begins, and -1 when
// it ends.
func (g *Gate) Counter(kind, name string) *atomic.Int64 {
	n, _ := g.counts.LoadOrStore(workKey{kind, name}, new(atomic.Int64))
	return n.(*atomic.Int64)
}

// Provider counts the calls of a capability that other nodes call for work.
func (g *Gate) Provider(capability string, provide community.Provider) community.Provider {
	n := g.Counter(WorkCall, capability)
	return func(ctx context.Context, s community.Signal) (community.Reply, error) {
		n.Add(1)
		defer n.Add(-1)
		return provide(ctx, s)
	}
}

// Running returns the work that runs, sorted by kind and name.
func (g *Gate) Running() []*symbiov1.Work {
	g.mu.Lock()
	parts := g.parts
	g.mu.Unlock()
	var all []*symbiov1.Work
	if parts.Work != nil {
		all = parts.Work()
	}
	g.counts.Range(func(key, n any) bool {
		if count := n.(*atomic.Int64).Load(); count > 0 {
			k := key.(workKey)
			all = append(all, &symbiov1.Work{Kind: k.kind, Name: k.name, Count: uint32(count)})
		}
		return true
	})
	slices.SortFunc(all, func(a, b *symbiov1.Work) int {
		return cmp.Or(strings.Compare(a.GetKind(), b.GetKind()), strings.Compare(a.GetName(), b.GetName()))
	})
	return all
}

// Drain makes the node take no new work, and sends what still runs: at once, and after each change. It returns when
// nothing runs any more, and then stops the node if r says so; or with the error of send or the cause of ctx, and the
// node drains on. With Undo it makes the node take work again and returns at once.
func (g *Gate) Drain(ctx context.Context, r *symbiov1.DrainRequest, send func(*symbiov1.DrainState) error) error {
	g.Draining.Set(!r.GetUndo())
	if r.GetUndo() {
		return send(&symbiov1.DrainState{Running: g.Running()})
	}
	again := time.NewTicker(pollInterval)
	defer again.Stop()
	var sent *symbiov1.DrainState
	// A call that passed the check before the node drained may not be counted yet, so one count without work is not enough.
	for idle := 0; idle < 2; {
		state := &symbiov1.DrainState{Draining: true, Running: g.Running()}
		if idle++; len(state.Running) > 0 {
			idle = 0
		}
		if sent == nil || !proto.Equal(sent, state) {
			if err := send(state); err != nil {
				return err
			}
			sent = state
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if !g.Draining.IsOn() {
			return community.Explain(community.ErrStopped, "the node takes work again, as symbio nodes drain --undo says")
		}
	}
	if err := send(&symbiov1.DrainState{Draining: true, Done: true}); err != nil {
		return err
	}
	if r.GetStop() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.parts.Stop()
	}
	return nil
}

// The methods of the control API by which this machine gives the node work. Those that begin something here are refused
// while it drains; all are counted but a conversation, whose agent counts while it has a task.
var (
	drainRefuses = []string{"Spawn", "RunTask", "Converse"}
	drainCounts  = []string{"Spawn", "RunTask", "Send", "Call", "CallStream"}
)

// begin checks and counts a call of the control API. The caller must call end.
func (g *Gate) begin(fullMethod string) (end func(), err error) {
	method := fullMethod[strings.LastIndexByte(fullMethod, '/')+1:]
	end = func() {}
	if slices.Contains(drainCounts, method) {
		n := g.Counter(WorkCommand, method)
		n.Add(1) // before the check, so that Drain sees what passes it
		end = func() { n.Add(-1) }
	}
	if slices.Contains(drainRefuses, method) {
		if err := g.Check(); err != nil {
			end()
			return nil, fmt.Errorf("%w; `symbio nodes drain --undo` lets it take work again", err)
		}
	}
	return end, nil
}

// Unary checks and counts the calls of the control API that have one answer.
func (g *Gate) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	end, err := g.begin(info.FullMethod)
	if err != nil {
		return nil, err
	}
	defer end()
	return next(ctx, req)
}

// Stream is Unary for streaming calls.
func (g *Gate) Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	end, err := g.begin(info.FullMethod)
	if err != nil {
		return err
	}
	defer end()
	return next(srv, stream)
}
