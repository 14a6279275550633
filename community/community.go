package community

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"symbio/actor"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

// Config sets up a Community. The zero value is a node of its own with a random id.
type Config struct {
	// Node is this node's id, as the Network proves it to others. Default: a random one, which is
	// only of use without a Network.
	Node NodeID
	// Name and Metadata are how other nodes see this one; for people. Default name: the id.
	Name     string
	Metadata map[string]string
	// System runs the agents. Default: one of the community's own, shut down at the end of Run. One
	// that is given stays its owner's to shut down, after Run.
	System *actor.System
	// Network reaches other nodes. nil: there are none.
	Network Network
	// Authorize says whether a peer may make a call; nil refuses every call from other nodes. It sees
	// the call without its payload, and the requesters with the peer itself in front. It may be
	// called by many goroutines at once. Why it refused is logged here, never told to the peer.
	Authorize func(Peer, Call) error
	// Refused is told of calls of other nodes that were refused here: each at first, and of a peer that
	// goes on and on one in a second. It may be called by many goroutines at once, and must not block.
	// Default: they are only logged and counted.
	Refused func(Refusal)
	// Undelivered is told of signals of Tell that were not handled, or perhaps not. It may be called by
	// many goroutines at once, and must not block. Default: they are only logged and counted.
	Undelivered func(Undelivered)
	// Logger receives refusals and nodes that come and go. Default: silent.
	Logger *slog.Logger

	// MaxAgents is how many agents may live here; one more is ErrBusy. Default 10,000: a sign of
	// something running away before it fills the memory.
	MaxAgents int
	// MaxMessage is the size in bytes of a payload that may come in or go out between nodes, calls
	// and replies alike; a larger one is ErrTooLarge. Default 1 MiB.
	MaxMessage int
	// MaxPartial is how much output of one call may go ahead of its answer between nodes, in bytes, in and
	// out; more ends the call with ErrTooLarge. Default 16 MiB: a long report, not a file.
	MaxPartial int
	// MaxNodeCalls is how many calls of one peer are served at a time, MaxAgentCalls how many calls
	// of all peers one agent may have; one more is ErrBusy. Defaults 64 and 16: one peer cannot take
	// all there is, nor fill an agent's mailbox.
	MaxNodeCalls, MaxAgentCalls int
	// CallRate is how many calls a second of one peer are served in the long run, CallBurst how many
	// of them may come at once; one more is ErrBusy. Defaults 50 and 100 (security.md 5.3); rate.Inf is
	// no limit.
	CallRate  rate.Limit
	CallBurst int
	// MaxDepth is how deep a JSON payload may be nested that is checked by a schema; a deeper one is
	// ErrInvalid. Default 64, the constant MaxDepth.
	MaxDepth int
	// MaxCall is how long a call between nodes may take, when its caller gave no deadline or a later
	// one. It is applied at both ends. Default 5 min.
	MaxCall time.Duration
	// Drain is how long an agent that is to end may go on with the signal it is working on, and then
	// how long its Terminate may take. Default 5 s.
	Drain time.Duration
	// Forget is how long the members of a lost node stay, unavailable, before they are left.
	// Default 30 s: a restart or a change of network does not lose them.
	Forget time.Duration
}

func (c Config) withDefaults() Config {
	if c.Node == "" {
		c.Node = NodeID(newID())
	}
	if c.Name == "" {
		c.Name = string(c.Node)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	for _, d := range []struct {
		field *int
		value int
	}{{&c.MaxAgents, 10_000}, {&c.MaxMessage, 1 << 20}, {&c.MaxPartial, maxPartial}, {&c.MaxNodeCalls, 64}, {&c.MaxAgentCalls, 16}, {&c.CallBurst, 100}, {&c.MaxDepth, MaxDepth}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if c.CallRate <= 0 {
		c.CallRate = 50
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&c.MaxCall, 5 * time.Minute}, {&c.Drain, 5 * time.Second}, {&c.Forget, 30 * time.Second}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	return c
}

// newID returns 16 random bytes as 32 hex digits: nobody can guess an id, nor draw it twice.
func newID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Community is one machine's view of everyone (spec: Community). Make it with New. Agents may be
// spawned and sent signals before Run, and until Run ends.
type Community struct {
	cfg     Config
	system  *actor.System
	started atomic.Bool
	refused atomic.Uint64 // members and capabilities of peers
	calls   *traffic
	tells   tells
	expiry  chan struct{} // capacity 1: some neighbour is to be forgotten sooner than awaited

	spawning sync.WaitGroup // Spawns under way; Add is guarded by mu

	mu        sync.RWMutex
	closing   bool                   // Run has begun to end; guarded by mu
	births    int                    // Spawns under way; guarded by mu
	residents map[MemberID]*resident // our agents; guarded by mu
	offers    map[string]*offer      // our capabilities; guarded by mu
	remote    map[MemberID]Member    // members of other nodes; guarded by mu
	nodes     map[NodeID]*neighbour  // other nodes, also those lost and not forgotten; guarded by mu
	// subs are the subscriptions to this node's own changes under true, those to all under false.
	subs map[bool]map[*Subscription]struct{} // guarded by mu
	// awaited is when forgetting looks next at whom to forget; zero: in an hour. guarded by mu
	awaited time.Time
}

// New returns a community with no members.
func New(cfg Config) *Community {
	full := cfg.withDefaults()
	c := &Community{
		cfg:       full,
		system:    cfg.System,
		calls:     newTraffic(full),
		tells:     tells{logged: rate.NewLimiter(rate.Every(toldEach), toldBurst)},
		expiry:    make(chan struct{}, 1),
		residents: map[MemberID]*resident{},
		offers:    map[string]*offer{},
		remote:    map[MemberID]Member{},
		nodes:     map[NodeID]*neighbour{},
		subs:      map[bool]map[*Subscription]struct{}{true: {}, false: {}},
	}
	if c.system == nil {
		c.system = actor.NewSystem(actor.Config{Logger: cfg.Logger})
	}
	return c
}

// Node returns this node's id.
func (c *Community) Node() NodeID { return c.cfg.Node }

// Name returns this node's name.
func (c *Community) Name() string { return c.cfg.Name }

// Run takes part in the network until ctx ends, or the Network fails. Then it says goodbye, ends
// every agent as Terminate does, side by side, ends every subscription, and returns when all it
// started has ended. The error is nil after an orderly end: the Network's otherwise, or that an
// agent did not stop in time. It can be called once.
func (c *Community) Run(ctx context.Context) error {
	if !c.started.CompareAndSwap(false, true) {
		return errors.New("run community: it has run already")
	}
	g, gctx := errgroup.WithContext(ctx)
	if c.cfg.Network != nil {
		g.Go(func() error {
			if err := c.cfg.Network.Run(gctx, c); err != nil && ctx.Err() == nil {
				return fmt.Errorf("run network: %w", err)
			}
			if ctx.Err() == nil {
				return errors.New("run network: it ended by itself")
			}
			return nil
		})
	}
	var agents error
	g.Go(func() error { return c.forgetting(gctx) })
	g.Go(func() error {
		<-gctx.Done()
		agents = c.wind()
		return nil
	})
	err := g.Wait()
	c.end()
	if c.cfg.System == nil {
		late, cancel := context.WithTimeout(context.Background(), c.cfg.Drain)
		defer cancel()
		agents = errors.Join(agents, c.system.Shutdown(late))
	}
	return errors.Join(err, agents)
}

// wind ends all agents. From now on nothing is spawned, served or attached.
func (c *Community) wind() error {
	c.mu.Lock()
	c.closing = true
	all := make([]*resident, 0, len(c.residents))
	for _, r := range c.residents {
		all = append(all, r)
	}
	c.mu.Unlock()
	var g errgroup.Group
	for _, r := range all {
		g.Go(func() error { return c.stop(context.Background(), r) })
	}
	c.spawning.Wait()
	return g.Wait()
}

// end forgets the other nodes and ends the subscriptions.
func (c *Community) end() {
	c.tells.under.End(ErrStopped)
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.nodes {
		c.drop(id, "this node left the network")
	}
	for _, subs := range c.subs {
		for s := range subs {
			s.finish()
		}
		clear(subs)
	}
}
