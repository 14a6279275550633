package community

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"symbio/actor"
)

// SpawnOption changes how an agent is spawned.
type SpawnOption func(*resident)

// WithMetadata says something of the agent that others can read. It is checked as a peer's would be:
// at most 64 entries, keys up to 64 bytes, values up to 1 KiB.
func WithMetadata(m map[string]string) SpawnOption {
	return func(r *resident) { r.birth.Metadata = maps.Clone(m) }
}

// WithMailbox is how many signals may wait for the agent. Default: the System's.
func WithMailbox(n int) SpawnOption { return func(r *resident) { r.mailbox = n } }

// resident is an agent of ours and the actor that it is.
type resident struct {
	c       *Community
	birth   Member // what the factory is given: no perceptions yet
	self    Member // birth and perceptions; never changed once it is among the residents
	mailbox int
	maxCall time.Duration // of a signal of another node, if that is beyond Config.MaxCall
	factory func(Member) (Agent, error)
	ref     *actor.Ref
	leaving atomic.Bool
	inbound atomic.Int32 // calls of peers in flight
	over    bool         // it ended, perhaps before it became a resident; guarded by c.mu

	// agent is the live one. It changes with a restart. Used by the actor's goroutine, and before the
	// first message by the spawner's.
	agent Agent
}

// exchange is the message to an actor. The reply is in it, and not the actor's answer, because that
// would be one more allocation; who gives up waiting must not look at it.
type exchange struct {
	signal Signal
	reply  Reply
}

// Spawn makes an agent and gives it a place in the community: its perceptions are read, it joins,
// and it can be sent signals when Spawn returns.
//
// factory is called once now, and once more after each failure of the agent, always with the same
// Member, which has no perceptions yet. When it fails, or the perceptions are not 1 to 256 distinct
// names of [A-Za-z0-9._-]{1,64}, the error is returned and nothing is left behind. An agent that
// fails too often (actor.Config.Restarts) leaves, and the change says why.
//
// An agent that is replaced after a failure, or ends, is given to its Terminate, each one once.
//
// ErrBusy: too many agents (Config.MaxAgents). ErrStopped: the community is ending. The context is
// looked at before the factory is called, and not kept.
func (c *Community) Spawn(ctx context.Context, name string, factory func(self Member) (Agent, error), opts ...SpawnOption) (Member, error) {
	m, err := c.spawn(ctx, name, factory, opts)
	if err != nil {
		return Member{}, &Error{Op: "spawn", Member: printable(name), Err: err}
	}
	return m, nil
}

func (c *Community) spawn(ctx context.Context, name string, factory func(self Member) (Agent, error), opts []SpawnOption) (Member, error) {
	r := &resident{c: c, factory: factory}
	r.birth = Member{ID: MemberID(newID()), Name: name, Node: c.cfg.Node, Available: true}
	for _, o := range opts {
		o(r)
	}
	if factory == nil {
		return Member{}, errors.New("no factory: it makes the agent")
	}
	if err := errors.Join(checkLabel("name", name), checkMetadata(r.birth.Metadata)); err != nil {
		return Member{}, err
	}
	if ctx.Err() != nil {
		return Member{}, context.Cause(ctx)
	}
	if err := c.conceive(); err != nil {
		return Member{}, err
	}
	defer c.born()
	var made error
	ref, err := c.system.Spawn(actor.Props{
		Name:    string(r.birth.ID),
		New:     func() (actor.Behavior, error) { made = r.renew(); return r, made },
		Mailbox: r.mailbox,
		Stopped: r.stopped,
	})
	if made != nil {
		return Member{}, made
	}
	if err != nil {
		return Member{}, explain(err)
	}
	if err := c.settle(r, ref); err != nil {
		return Member{}, errors.Join(err, c.stop(ctx, r))
	}
	return r.self, nil
}

// conceive reserves a place for one more agent.
func (c *Community) conceive() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return ErrStopped
	}
	if len(c.residents)+c.births >= c.cfg.MaxAgents {
		return fmt.Errorf("%w: %d agents live here, and no more may", ErrBusy, c.cfg.MaxAgents)
	}
	c.births++
	c.spawning.Add(1)
	return nil
}

func (c *Community) born() {
	c.mu.Lock()
	c.births--
	c.mu.Unlock()
	c.spawning.Done()
}

// settle makes r a member, unless all is ending.
func (c *Community) settle(r *resident, ref *actor.Ref) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.ref = ref
	if c.closing || r.over {
		return ErrStopped
	}
	c.residents[r.self.ID] = r
	c.publish(Change{Kind: Joined, Member: r.self}, true)
	return nil
}

// renew makes the first agent, or the next one after a failure.
func (r *resident) renew() error {
	first := r.agent == nil && r.self.ID == ""
	r.tidy()
	if r.leaving.Load() {
		return ErrStopped
	}
	agent, err := r.factory(r.birth)
	if err == nil && agent == nil {
		err = errors.New("the factory made no agent")
	}
	if err != nil {
		return err
	}
	r.agent = agent
	if !first {
		return nil
	}
	accepts, err := sortedNames("perception", agent.Perceptions())
	if err == nil && len(accepts) == 0 {
		err = errors.New("the agent has no perceptions: nobody could send it anything")
	}
	if err != nil {
		r.tidy()
		return err
	}
	r.self = r.birth
	r.self.Accepts = accepts
	return nil
}

// Receive makes a resident an actor.Behavior.
func (r *resident) Receive(ctx context.Context, msg any) (any, error) {
	x := msg.(*exchange)
	reply, err := r.agent.Receive(ctx, x.signal)
	x.reply = reply
	return nil, err
}

// tidy gives the live agent to its Terminate, once.
func (r *resident) tidy() {
	agent := r.agent
	r.agent = nil
	t, ok := agent.(Terminator)
	if !ok {
		return
	}
	// The caller of Community.Terminate may be gone already; the deadline is the agent's own.
	ctx, cancel := context.WithTimeout(context.Background(), r.c.cfg.Drain)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			r.c.cfg.Logger.Error("terminate panicked", "member", r.birth.ID, "name", r.birth.Name, "panic", fmt.Sprint(p))
		}
	}()
	if err := t.Terminate(ctx); err != nil {
		r.c.cfg.Logger.Warn("agent did not tidy up", "member", r.birth.ID, "name", r.birth.Name, "err", err)
	}
}

// stopped is the last that the actor does: no Receive runs, nothing is queued.
func (r *resident) stopped(why error) {
	r.leaving.Store(true)
	r.tidy()
	reason := "terminated"
	if why != nil {
		reason = why.Error()
		r.c.cfg.Logger.Error("agent ended", "member", r.birth.ID, "name", r.birth.Name, "err", why)
	}
	r.c.remove(r, reason)
}

// remove takes r out of the community, once.
func (c *Community) remove(r *resident, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.over {
		return
	}
	r.over = true
	if _, ok := c.residents[r.birth.ID]; ok {
		delete(c.residents, r.birth.ID)
		c.publish(Change{Kind: Left, Member: r.self, Why: why}, true)
	}
}

// Terminate ends an agent of this node and returns when it has left: new signals are refused and
// queued ones answered with ErrStopped at once, the one in flight may finish, then the agent's
// Terminate is called, then it leaves.
//
// When ctx ends or Config.Drain has passed before the signal in flight is done, its context is
// cancelled, and the agent gets one more Drain, and a second, to come to its end. If it does not, it
// leaves all the same, and the error wraps context.DeadlineExceeded; its Terminate is called if ever
// its Receive returns. Terminate and Receive of one agent never overlap. An agent that terminates
// itself within Receive waits for itself in vain.
//
// Terminating one that is being terminated waits for that. ErrNotFound: nobody of that id (any
// more). ErrRemoteMember: it is not ours to end.
func (c *Community) Terminate(ctx context.Context, id MemberID) error {
	c.mu.RLock()
	r, ours := c.residents[id]
	m, theirs := c.remote[id]
	c.mu.RUnlock()
	switch {
	case theirs:
		return &Error{Op: "terminate", Member: m.Name, Err: ErrRemoteMember}
	case !ours:
		return &Error{Op: "terminate", Member: printable(string(id)), Err: ErrNotFound}
	}
	if err := c.stop(ctx, r); err != nil {
		return &Error{Op: "terminate", Member: r.self.Name, Err: err}
	}
	return nil
}

// stop ends r's actor, in two tries.
func (c *Community) stop(ctx context.Context, r *resident) error {
	r.leaving.Store(true)
	patient, cancel := context.WithTimeout(ctx, c.cfg.Drain)
	defer cancel()
	if r.ref.Stop(patient) == nil {
		return nil
	}
	// The one in flight has been cancelled. Its return and Terminate are still to come, whatever the
	// caller's context says.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.Drain+time.Second)
	defer cancel()
	if err := r.ref.Stop(last); err != nil {
		c.cfg.Logger.Error("agent does not stop", "member", r.birth.ID, "name", r.birth.Name)
		c.remove(r, "it did not stop in time")
		return fmt.Errorf("it does not stop: %w", err)
	}
	return nil
}

// errMailbox is ErrBusy of the agent's own mailbox, and not one that the agent met.
var errMailbox = Explain(ErrBusy, "its mailbox is full")

// explain turns the actor's errors into ours.
func explain(err error) error {
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
