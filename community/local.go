package community

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"symbio/actor"
	"symbio/internal/actor/term"

	"golang.org/x/sync/errgroup"
)

// SpawnOption changes how an agent is spawned.
type SpawnOption func(*localAgent)

// WithMetadata sets metadata of the agent that other members can read. It has the limits of a peer's: at most 64
// entries, keys up to 128 bytes, values up to 1 KiB.
func WithMetadata(m map[string]string) SpawnOption {
	return func(a *localAgent) { a.initial.Metadata = maps.Clone(m) }
}

// WithID gives the agent the id that it had before the node was started again. Spawn fails if it is not 32 hex digits,
// or a member has it. Default: a new random id, which all other agents must have.
func WithID(id MemberID) SpawnOption { return func(a *localAgent) { a.initial.ID = id } }

// localNode runs this node's agents and offers its capabilities.
type localNode struct {
	cfg    *Config
	roster *roster
	system *actor.System
	posted term.Set // signals of Tell that agents have

	undelivered *deliveryFailures

	spawning sync.WaitGroup // Spawns under way; Add is guarded by roster.mu
	reserved int            // places for them; guarded by roster.mu
}

func newLocalNode(cfg *Config, r *roster, u *deliveryFailures) *localNode {
	n := &localNode{cfg: cfg, roster: r, system: cfg.System, undelivered: u}
	if n.system == nil {
		n.system = actor.NewSystem(actor.Config{Logger: cfg.Logger})
	}
	return n
}

// localAgent is an agent of this node with its actor. It is the actor's behavior.
type localAgent struct {
	node     *localNode
	initial  Member        // what the factory is given: no perceptions yet
	self     Member        // initial and perceptions; never changed once it is in the roster
	maxCall  time.Duration // of a signal of another node, if that is beyond Config.MaxCall
	factory  func(Member) (Agent, error)
	ref      *actor.Ref
	stopping atomic.Bool
	inbound  atomic.Int32 // calls of peers in flight
	ended    bool         // perhaps before it was registered; guarded by roster.mu

	// agent is the current agent; a restart replaces it. Only the actor's goroutine uses it, and before the first
	// message the goroutine of Spawn.
	agent Agent
}

// signalRequest is the message to an agent's actor. The reply is a field of it and not the actor's answer, which
// saves an allocation. A caller that stops waiting must not read it, because the actor still writes.
type signalRequest struct {
	signal Signal
	reply  Reply
}

// Spawn creates an agent and makes it a member: it reads the agent's perceptions and announces the member. The
// agent accepts signals when Spawn returns.
//
// factory is called once now, and again after each failure of the agent, always with the same Member, which has no
// perceptions yet. If factory fails, or the perceptions are not 1 to 256 distinct names of [A-Za-z0-9._-]{1,64},
// Spawn returns the error and leaves nothing behind. An agent that fails too often (actor.Config.Restarts) leaves
// the community, with the reason in the Change.
//
// Each agent that factory made is terminated once: when it is replaced after a failure, or ends.
//
// ErrBusy: there are Config.MaxAgents agents. ErrStopped: the community is ending. Spawn checks ctx before it
// calls factory, and does not keep it.
func (c *Community) Spawn(ctx context.Context, name string, factory func(self Member) (Agent, error), opts ...SpawnOption) (Member, error) {
	m, err := c.local.spawn(ctx, name, factory, opts)
	if err != nil {
		return Member{}, &Error{Op: "spawn", Member: printable(name), Err: err}
	}
	return m, nil
}

func (n *localNode) spawn(ctx context.Context, name string, factory func(self Member) (Agent, error), opts []SpawnOption) (Member, error) {
	a := &localAgent{node: n, factory: factory}
	a.initial = Member{ID: MemberID(newID()), Name: name, Node: n.cfg.Node, Available: true}
	for _, o := range opts {
		o(a)
	}
	if factory == nil {
		return Member{}, errors.New("no factory: it makes the agent")
	}
	if err := errors.Join(checkLabel("name", name), checkMetadata(a.initial.Metadata)); err != nil {
		return Member{}, err
	}
	if ctx.Err() != nil {
		return Member{}, context.Cause(ctx)
	}
	if id, err := hex.DecodeString(string(a.initial.ID)); err != nil || len(id) != 16 {
		return Member{}, fmt.Errorf("%q is no id of a member: it has 32 hex digits", a.initial.ID)
	}
	if err := n.reserve(a.initial.ID); err != nil {
		return Member{}, err
	}
	defer n.release()
	var made error
	ref, err := n.system.Spawn(actor.Props{
		Name:    string(a.initial.ID),
		New:     func() (actor.Behavior, error) { made = a.start(); return a, made },
		Stopped: a.stopped,
	})
	if made != nil {
		return Member{}, made
	}
	if err != nil {
		return Member{}, fromActor(err)
	}
	if err := n.register(a, ref); err != nil {
		return Member{}, errors.Join(err, n.stop(ctx, a))
	}
	return a.self, nil
}

// reserve counts one more agent that is being spawned, so that concurrent Spawns keep to the limit. On success the
// caller must call release.
func (n *localNode) reserve(id MemberID) error {
	n.roster.mu.Lock()
	defer n.roster.mu.Unlock()
	if n.roster.closing {
		return ErrStopped
	}
	if len(n.roster.agents)+n.reserved >= n.cfg.MaxAgents {
		return fmt.Errorf("%w: %d agents live here, and no more may", ErrBusy, n.cfg.MaxAgents)
	}
	_, local := n.roster.agents[id]
	if _, remote := n.roster.remote[id]; local || remote {
		return fmt.Errorf("there is a member with the id %s already", id)
	}
	n.reserved++
	n.spawning.Add(1)
	return nil
}

// release ends the reservation of a Spawn that is done.
func (n *localNode) release() {
	n.roster.mu.Lock()
	n.reserved--
	n.roster.mu.Unlock()
	n.spawning.Done()
}

// register makes a a member. ErrStopped: the agent or the community has ended meanwhile.
func (n *localNode) register(a *localAgent, ref *actor.Ref) error {
	n.roster.mu.Lock()
	defer n.roster.mu.Unlock()
	a.ref = ref
	if n.roster.closing || a.ended {
		return ErrStopped
	}
	n.roster.agents[a.self.ID] = a
	n.roster.publish(Change{Kind: Joined, Member: a.self}, true)
	return nil
}

// unregister removes a from the members. It does nothing the second time.
func (n *localNode) unregister(a *localAgent, why string) {
	n.roster.mu.Lock()
	defer n.roster.mu.Unlock()
	if a.ended {
		return
	}
	a.ended = true
	if _, ok := n.roster.agents[a.initial.ID]; ok {
		delete(n.roster.agents, a.initial.ID)
		n.roster.publish(Change{Kind: Left, Member: a.self, Why: why}, true)
	}
}

// start creates the first agent, or the next one after a failure.
func (a *localAgent) start() error {
	first := a.agent == nil && a.self.ID == ""
	a.terminate()
	if a.stopping.Load() {
		return ErrStopped
	}
	agent, err := a.factory(a.initial)
	if err == nil && agent == nil {
		err = errors.New("the factory made no agent")
	}
	if err != nil {
		return err
	}
	a.agent = agent
	if !first {
		return nil
	}
	accepts, err := sortedNames("perception", agent.Perceptions(), maxPerceptions)
	if err == nil && len(accepts) == 0 {
		err = errors.New("the agent has no perceptions: it could not be sent anything")
	}
	if err != nil {
		a.terminate()
		return err
	}
	a.self = a.initial
	a.self.Accepts = accepts
	return nil
}

// Receive implements actor.Behavior.
func (a *localAgent) Receive(ctx context.Context, msg any) (any, error) {
	var err error
	switch x := msg.(type) {
	case *signalRequest:
		x.reply, err = a.agent.Receive(ctx, x.signal)
	case *tellRequest:
		_, err = a.agent.Receive(ctx, x.signal)
	}
	return nil, err
}

// terminate calls Terminate of the current agent, if it has that method. It recovers a panic, because the agent's
// end must not end the node.
func (a *localAgent) terminate() {
	agent := a.agent
	a.agent = nil
	t, ok := agent.(Terminator)
	if !ok {
		return
	}
	// The caller of Community.Terminate may be gone already; the deadline is the agent's own.
	ctx := term.Until(context.Background(), time.Now().Add(a.node.cfg.Drain), nil)
	defer ctx.Close()
	defer func() {
		if p := recover(); p != nil {
			a.node.cfg.Logger.Error("terminate panicked", "member", a.initial.ID, "name", a.initial.Name, "panic", fmt.Sprint(p))
		}
	}()
	if err := t.Terminate(ctx); err != nil {
		a.node.cfg.Logger.Warn("agent did not tidy up", "member", a.initial.ID, "name", a.initial.Name, "err", err)
	}
}

// stopped is called by the actor at its end, when no Receive runs and nothing is queued.
func (a *localAgent) stopped(why error) {
	a.stopping.Store(true)
	a.terminate()
	reason := "terminated"
	if why != nil {
		reason = why.Error()
		a.node.cfg.Logger.Error("agent ended", "member", a.initial.ID, "name", a.initial.Name, "err", why)
	}
	a.node.unregister(a, reason)
}

// Terminate ends an agent of this node and returns when it has left the community. New signals are refused and
// queued ones answered with ErrStopped at once. The current signal may finish. Then the agent's Terminate is
// called.
//
// If ctx ends or Config.Drain passes before the current signal is done, its context is cancelled, and the agent
// has another Config.Drain and a second to return. If it does not, it is removed anyway, and the error wraps
// context.DeadlineExceeded; its Terminate is called if its Receive ever returns. Terminate and Receive of one
// agent never run at the same time. An agent must not terminate itself within Receive and wait for it: that is a
// deadlock until the deadline.
//
// A second Terminate waits for the first. ErrNotFound: no member has that id. ErrRemoteMember: the member lives on
// another node.
func (c *Community) Terminate(ctx context.Context, id MemberID) error {
	c.roster.mu.RLock()
	a, local := c.roster.agents[id]
	m, remote := c.roster.remote[id]
	c.roster.mu.RUnlock()
	switch {
	case remote:
		return &Error{Op: "terminate", Member: m.Name, Err: ErrRemoteMember}
	case !local:
		return &Error{Op: "terminate", Member: printable(string(id)), Err: ErrNotFound}
	}
	if err := c.local.stop(ctx, a); err != nil {
		return &Error{Op: "terminate", Member: a.self.Name, Err: err}
	}
	return nil
}

// stop ends a's actor: first with the caller's context, then with a deadline of its own.
func (n *localNode) stop(ctx context.Context, a *localAgent) error {
	a.stopping.Store(true)
	patient, cancel := context.WithTimeout(ctx, n.cfg.Drain)
	defer cancel()
	if a.ref.Stop(patient) == nil {
		return nil
	}
	// The signal in flight has been cancelled. Its return and Terminate are still to come, whatever the
	// caller's context says.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.cfg.Drain+time.Second)
	defer cancel()
	if err := a.ref.Stop(last); err != nil {
		n.cfg.Logger.Error("agent does not stop", "member", a.initial.ID, "name", a.initial.Name)
		n.unregister(a, "it did not stop in time")
		return fmt.Errorf("it does not stop: %w", err)
	}
	return nil
}

// terminateAll ends all agents in parallel. From then on the community spawns, serves and attaches nothing.
func (n *localNode) terminateAll() error {
	var g errgroup.Group
	n.roster.mu.Lock()
	n.roster.closing = true
	for _, a := range n.roster.agents {
		g.Go(func() error { return n.stop(context.Background(), a) })
	}
	n.roster.mu.Unlock()
	n.spawning.Wait()
	return g.Wait()
}

// ask sends the agent a signal and waits for the reply. Every signal passes through ask or post.
func (a *localAgent) ask(ctx context.Context, s Signal) (Reply, error) {
	if err := a.accepts(s); err != nil {
		return Reply{}, err
	}
	x := &signalRequest{signal: s}
	if _, err := a.ref.Ask(ctx, x); err != nil {
		return Reply{}, fromActor(err)
	}
	return x.reply, nil
}

// tellRequest is a signal that nobody waits for: one object for the message, the context of its Receive, and its outcome.
type tellRequest struct {
	signal Signal
	term   term.Term
	agent  *localAgent
	done   func(error) // nil = a failure is reported as undelivered
}

// finishTell is called by the actor, once for each tellRequest.
func finishTell(msg any, err error) {
	p := msg.(*tellRequest)
	p.term.Close()
	err = fromActor(err)
	switch {
	case p.done != nil:
		p.done(err)
	case err != nil:
		self := p.agent.self
		p.agent.node.undelivered.report(DeliveryFailure{Node: self.Node, Member: self.ID, Perception: p.signal.Perception, Count: 1, Err: err})
	}
}

// post sends the agent a signal and does not wait. The agent's actor calls done, unless post returns an error; with nil, a failure is
// reported as undelivered.
func (a *localAgent) post(s Signal, done func(error)) error {
	if err := a.accepts(s); err != nil {
		return err
	}
	p := &tellRequest{signal: s, agent: a, done: done}
	a.node.posted.Start(&p.term, context.Background(), a.node.cfg.MaxCall)
	err := a.ref.Post(&p.term, p, finishTell)
	if err != nil {
		p.term.Close()
	}
	return fromActor(err)
}

// accepts returns an error if the agent cannot be sent the signal.
func (a *localAgent) accepts(s Signal) error {
	switch {
	case !slices.Contains(a.self.Accepts, s.Perception):
		return ErrNotAccepted
	case a.stopping.Load():
		return ErrStopped
	}
	return nil
}

// errMailbox is the ErrBusy of the agent's own mailbox. The agent may return another ErrBusy, which is not counted
// as a refusal.
var errMailbox = Explain(ErrBusy, "its mailbox is full")

// fromActor converts an error of package actor into one of this package; nil stays nil.
func fromActor(err error) error {
	switch {
	case errors.Is(err, actor.ErrBusy):
		return errMailbox
	case errors.Is(err, actor.ErrStopped), errors.Is(err, actor.ErrNoActor):
		return ErrStopped
	case errors.Is(err, actor.ErrPanicked):
		return fmt.Errorf("%w: %w", ErrAgentFailed, err)
	}
	return err
}
