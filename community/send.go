package community

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Send gives a signal to a member, here or on another node, and waits for the reply. s.Data and the
// reply's are not copied on the way to an agent of this node; nobody may change them afterwards.
//
// Besides the errors of ctx: ErrNotFound, ErrNotAccepted and ErrUnavailable before anything is sent;
// ErrBusy, ErrStopped, ErrAgentFailed as they say; and what the agent returned as it is. From
// another node all of them come too, with ErrDenied and ErrTooLarge, and an agent's own
// error is ErrAgentFailed there, unless it wraps one of errors.go. Errors are *Error.
//
// A signal to another node has a deadline of Config.MaxCall at the latest, unless Lasting says more.
func (c *Community) Send(ctx context.Context, id MemberID, s Signal) (Reply, error) {
	c.mu.RLock()
	r := c.residents[id]
	c.mu.RUnlock()
	if r == nil {
		return c.sendAway(ctx, id, s)
	}
	reply, err := r.deliver(ctx, s)
	if err != nil {
		return Reply{}, &Error{Op: "send " + printable(s.Perception) + " to", Member: r.self.Name, Err: err}
	}
	return reply, nil
}

// deliver is the way of every signal to an agent of ours, whoever sent it.
func (r *resident) deliver(ctx context.Context, s Signal) (Reply, error) {
	if !slices.Contains(r.self.Accepts, s.Perception) {
		return Reply{}, ErrNotAccepted
	}
	if r.leaving.Load() {
		return Reply{}, ErrStopped
	}
	x := &exchange{signal: s}
	if _, err := r.ref.Ask(ctx, x); err != nil {
		return Reply{}, explain(err)
	}
	return x.reply, nil
}

func (c *Community) sendAway(ctx context.Context, id MemberID, s Signal) (Reply, error) {
	op := deed{"send", s.Perception, "to"}
	m, l, err := c.reach(id, func(m Member) error {
		if !slices.Contains(m.Accepts, s.Perception) {
			return ErrNotAccepted
		}
		return nil
	})
	if err != nil {
		return Reply{}, op.failed(m, err)
	}
	return c.carry(ctx, op, m, l, PerceptionPrefix+s.Perception, s, nil)
}

// Invoke calls a capability that another node provides, and waits for the reply. The capability
// belongs to the member id: a node is the member whose id is the node's. Of payload, everything but
// the Perception is sent.
//
// ErrLocalMember: id is a member of this node, or this node itself. Before anything is sent:
// ErrNotProvided when id does not provide it, ErrInvalid when the payload does not fit the schema that
// its node announced. ErrAgentFailed when the reply does not fit. A schema that cannot be used takes
// anything. Otherwise as Send to a member of another node.
func (c *Community) Invoke(ctx context.Context, id MemberID, capability string, payload Signal) (Reply, error) {
	return c.invoke(ctx, id, capability, payload, nil)
}

func (c *Community) invoke(ctx context.Context, id MemberID, capability string, payload Signal, listen func(Update)) (Reply, error) {
	op := deed{"invoke", capability, "on"}
	var known *service
	m, l, err := c.reach(id, func(m Member) error {
		if !slices.Contains(m.Provides, capability) {
			return ErrNotProvided
		}
		if m.ID == MemberID(m.Node) {
			known = c.nodes[m.Node].capabilities[capability]
		}
		return nil
	})
	if local, ok := c.local(id); ok {
		m, err = local, ErrLocalMember
	}
	if err != nil {
		return Reply{}, op.failed(m, err)
	}
	input, output := known.schemas(c.cfg.Logger, m.Node)
	if err := input.check(payload.Data, payload.ContentType, c.cfg.MaxDepth); err != nil && !errors.Is(err, errTooMuch) {
		return Reply{}, op.failed(m, Explain(ErrInvalid, "the input: "+err.Error()))
	}
	reply, err := c.carry(ctx, op, m, l, capability, payload, listen)
	if err != nil {
		return Reply{}, err
	}
	if err := output.check(reply.Data, reply.ContentType, c.cfg.MaxDepth); err != nil && !errors.Is(err, errTooMuch) {
		return Reply{}, op.failed(m, Explain(ErrAgentFailed, "its answer does not fit its output schema: "+err.Error()))
	}
	return reply, nil
}

// deed is what is tried on a member; it is put into words when it fails.
type deed struct{ verb, what, how string }

func (d deed) failed(m Member, err error) error {
	return &Error{Op: d.verb + " " + printable(d.what) + " " + d.how, Member: m.Name, Err: err}
}

// reach returns a member of another node and the lease by which it can be reached now. may looks at
// the member under the lock.
func (c *Community) reach(id MemberID, may func(Member) error) (Member, *Lease, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	m, ok := c.remote[id]
	if !ok {
		return Member{Name: printable(string(id))}, nil, ErrNotFound
	}
	if err := may(m); err != nil {
		return m, nil, err
	}
	lease := c.nodes[m.Node].lease
	if !m.Available || lease == nil {
		return m, nil, ErrUnavailable
	}
	return m, lease, nil
}

// local returns a member of this node, and for its id this node itself.
func (c *Community) local(id MemberID) (Member, bool) {
	if id == MemberID(c.cfg.Node) {
		return Member{ID: id, Name: c.cfg.Name, Node: c.cfg.Node}, true
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	r, ok := c.residents[id]
	if !ok {
		return Member{}, false
	}
	return r.self, true
}

// carry sends a call to another node. It fails as soon as the lease is retired, and what comes after
// that does not count.
func (c *Community) carry(ctx context.Context, op deed, m Member, l *Lease, capability string, s Signal, listen func(Update)) (Reply, error) {
	fail := func(err error) (Reply, error) { return Reply{}, op.failed(m, err) }
	if len(s.Data) > c.cfg.MaxMessage {
		return fail(fmt.Errorf("%w: %d bytes, at most %d may leave this node", ErrTooLarge, len(s.Data), c.cfg.MaxMessage))
	}
	if len(s.OnBehalf) > MaxOnBehalf {
		return fail(fmt.Errorf("%w: what it is held to on whose behalf it is has %d bytes, at most %d may leave this node", ErrTooLarge, len(s.OnBehalf), MaxOnBehalf))
	}
	if err := ctx.Err(); err != nil {
		return fail(context.Cause(ctx))
	}
	call := Call{ID: newID(), Member: m.ID, Capability: capability, Payload: s.Data, ContentType: s.ContentType, Requester: s.Requester, OnBehalf: s.OnBehalf, Trace: TraceOf(ctx), Listen: l.listening(listen)}
	if m.ID == MemberID(m.Node) {
		call.Member = ""
	}
	under := l.calls.Begin(ctx, c.patience(ctx))
	defer under.Close()
	reply, err := c.cfg.Network.Invoke(under, m.Node, call)
	switch {
	case l.valid.Err() != nil:
		return fail(fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(l.valid)))
	case errors.Is(err, context.Canceled) && under.Err() == nil:
		return fail(fmt.Errorf("%w: its node gave up", ErrUnavailable)) // it is ending
	case err != nil:
		return fail(err)
	case len(reply.Data) > c.cfg.MaxMessage:
		return fail(fmt.Errorf("%w: the reply has %d bytes, at most %d may come in", ErrTooLarge, len(reply.Data), c.cfg.MaxMessage))
	}
	return reply, nil
}
