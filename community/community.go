package community

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"symbio/actor"
	"symbio/internal/actor/awake"

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
	// Authorize decides whether a peer may make a call; nil refuses every call of other nodes. It gets the call
	// without its payload, and the requesters with the peer itself in front. Many goroutines may call it at once.
	// The reason of a refusal is logged here and never sent to the peer, unless it is an ErrBusy: the call is allowed,
	// and not now.
	Authorize func(Peer, Call) error
	// Draining makes the node take no new work. Default: it always takes work.
	Draining *Drain
	// OnRefused is called for calls of other nodes that were refused here: for each at first, and once a second
	// for a peer that continues. Many goroutines may call it at once, and it must not block. Default: refusals are
	// only logged and counted.
	OnRefused func(Refusal)
	// OnUndelivered is called for signals of Tell that were not handled, or whose result is not known. Many
	// goroutines may call it at once, and it must not block. Default: they are only logged and counted.
	OnUndelivered func(DeliveryFailure)
	// OnLeftOut is called, once per connection, for a peer that has more members or capabilities than this node
	// takes; what says how many. It must not block, nor call the Community. Default: LeftOut answers the same.
	OnLeftOut func(from Peer, what string)
	// OnCall is called at the begin of each call between nodes, of this node's and of those that it serves, and the
	// function that it returns at the end. The context that it returns is the context of the call: a Trace in it travels with
	// it. Many goroutines may call it at once. Default: not called, and calls have the Trace of their context.
	OnCall func(ctx context.Context, c CallInfo) (context.Context, func(error))
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
	// MaxNodeCalls is how many calls of all peers this node serves at a time, MaxAgentCalls how many of
	// them one agent may have; one more is ErrBusy. A peer may have as many calls as places are free, so
	// that one alone takes half of them and there is room for the next. Defaults 256 and 64.
	MaxNodeCalls, MaxAgentCalls int
	// RefusalRate is how many calls a second of one peer Authorize may refuse in the long run, RefusalBurst
	// how many at once; one more is ErrBusy. Calls that are allowed have no rate. Defaults 50 and 100;
	// rate.Inf is no limit.
	RefusalRate  rate.Limit
	RefusalBurst int
	// MaxCall is how long a call between nodes may take, when its caller gave no deadline or a later
	// one. It is applied at both ends. Default 5 min.
	MaxCall time.Duration
	// Drain is how long an agent that is to end may go on with the signal it is working on, and then
	// how long its Terminate may take. Default 5 s.
	Drain time.Duration
	// Forget is how long the members of a lost node stay, unavailable, before they are left.
	// Default 30 s: a restart or a change of network does not lose them.
	Forget time.Duration
	// Clock measures Forget. The zero Clock is the machine's.
	Clock awake.Clock
}

// withDefaults returns c with the defaults filled in. A negative limit counts as not set.
func (c Config) withDefaults() Config {
	c.Node = cmp.Or(c.Node, NodeID(newID()))
	c.Name = cmp.Or(c.Name, string(c.Node))
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	for _, d := range []struct {
		field *int
		value int
	}{{&c.MaxAgents, 10_000}, {&c.MaxMessage, 1 << 20}, {&c.MaxPartial, maxPartial}, {&c.MaxNodeCalls, 256}, {&c.MaxAgentCalls, 64},
		{&c.RefusalBurst, 100}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if c.OnLeftOut == nil {
		c.OnLeftOut = func(Peer, string) {}
	}
	if c.RefusalRate <= 0 {
		c.RefusalRate = 50
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

// newID returns 16 random bytes as 32 hex digits: no node can guess an id, and no two nodes draw the same.
func newID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Community is one node's view of all members. Make it with New. Agents can be spawned and sent
// signals before Run, and until Run ends.
type Community struct {
	cfg         *Config
	roster      *roster           // all members and capabilities, and their subscribers
	local       *localNode        // runs the agents of this node
	remote      *remoteNodes      // keeps the members of other nodes
	outbound    *outbound         // sends calls to other nodes
	inbound     *inbound          // serves the calls of other nodes
	undelivered *deliveryFailures // counts signals that were not handled
	started     atomic.Bool
}

// New returns a community with no members.
func New(cfg Config) *Community {
	full := cfg.withDefaults()
	r := newRoster(&full)
	full.Draining.use(r)
	u := newDeliveryFailures(&full, r)
	return &Community{cfg: &full, roster: r, local: newLocalNode(&full, r, u), remote: newRemoteNodes(&full, r),
		outbound: &outbound{&full, r}, inbound: newInbound(&full, r), undelivered: u}
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
	g.Go(func() error { return c.remote.forgetLost(gctx) })
	g.Go(func() error {
		<-gctx.Done()
		agents = c.local.terminateAll()
		return nil
	})
	err := g.Wait()
	c.local.posted.End(ErrStopped)
	c.remote.removeAll("this node left the network")
	c.roster.endSubscriptions()
	if c.cfg.System == nil {
		late, cancel := context.WithTimeout(context.Background(), c.cfg.Drain)
		defer cancel()
		agents = errors.Join(agents, c.local.system.Shutdown(late))
	}
	return errors.Join(err, agents)
}
