package community

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// outbound sends signals and calls to other nodes.
type outbound struct {
	cfg    *Config
	roster *roster
}

// Send gives a signal to a member, here or on another node, and waits for the reply. s.Data and the
// reply's are not copied on the way to an agent of this node; they must not be changed afterwards.
// [Perception] does the same with Go values instead of bytes.
//
// Besides the errors of ctx: ErrNotFound, ErrNotAccepted and ErrUnavailable before anything is sent;
// ErrBusy, ErrStopped, ErrAgentFailed as they say; and what the agent returned as it is. From
// another node all of them come too, with ErrDenied and ErrTooLarge, and an agent's own
// error is ErrAgentFailed there, unless it wraps one of errors.go. Errors are *Error.
//
// A signal to another node has a deadline of Config.MaxCall at the latest, unless WithCallDuration allows more.
func (c *Community) Send(ctx context.Context, id MemberID, s Signal) (Reply, error) {
	op := operation{"send", s.Perception, "to"}
	if a := c.roster.localAgent(id); a != nil {
		reply, err := a.ask(ctx, s)
		if err != nil {
			return Reply{}, op.failed(a.self, err)
		}
		return reply, nil
	}
	m, l, err := c.outbound.receiver(id, s.Perception)
	if err != nil {
		return Reply{}, op.failed(m, err)
	}
	return c.outbound.carry(ctx, op, m, l, PerceptionPrefix+s.Perception, s, nil)
}

// Tell gives a signal to a member, here or on another node, and does not wait. nil says that it is in the
// member's mailbox, or on its way to the member's node: not that it will be handled. It is handled once
// or not at all, and the signals that one goroutine tells a member in their order; nothing is said about
// the order of a Tell and a Send. s.Data is not copied: it must not be changed afterwards.
//
// Tell does not block. ErrBusy: the mailbox is full, or too much is on its way to that node; try again
// later. ErrNotFound, ErrNotAccepted, ErrUnavailable, ErrStopped and ErrTooLarge as for Send; nothing was
// done then. Of ctx only its end is looked at, once: the agent's context has a deadline of
// Config.MaxCall.
//
// A later failure is reported to Config.Undelivered and counted by Undelivered: that the other node
// refused the signal, that the agent failed, and that the connection ended before it was known.
func (c *Community) Tell(ctx context.Context, id MemberID, s Signal) error {
	op := operation{"tell", s.Perception, "to"}
	if a := c.roster.localAgent(id); a != nil {
		err := context.Cause(ctx)
		if err == nil {
			err = a.post(s, nil)
		}
		if err != nil {
			return op.failed(a.self, err)
		}
		return nil
	}
	m, l, err := c.outbound.receiver(id, s.Perception)
	if err != nil {
		return op.failed(m, err)
	}
	call, err := c.outbound.newCall(ctx, m, l, PerceptionPrefix+s.Perception, s)
	if err == nil {
		err = c.cfg.Network.Tell(m.Node, call)
	}
	if err != nil {
		return op.failed(m, err)
	}
	return nil
}

// maxCheckedBefore is the longest payload that is checked before it is sent, in bytes. The other node checks it, too; to check a
// longer one twice takes more than the rest of the call.
const maxCheckedBefore = 16 << 10

// Invoke calls a capability that another node provides, and waits for the reply. The capability
// belongs to the member id: a node is the member whose id is the node's. Of payload, everything but
// the Perception is sent.
//
// ErrLocalMember: id is a member of this node, or this node itself. Before anything is sent:
// ErrNotProvided when id does not provide it, ErrInvalid when the payload does not fit the schema that
// its node announced; a payload above maxCheckedBefore is checked by that node alone. ErrAgentFailed when the reply
// does not fit. A schema that cannot be used takes anything. Otherwise as Send to a member of another node.
func (c *Community) Invoke(ctx context.Context, id MemberID, capability string, payload Signal) (Reply, error) {
	return c.InvokeStream(ctx, id, capability, payload, nil)
}

// InvokeStream is Invoke for a caller that wants to know meanwhile how far the call is, and parts of its
// output. onUpdate is called from within InvokeStream, for one Update at a time, in the order in which they
// were reported, and never after the answer. It may block: then the call's output waits at its provider, and
// its progress is thinned out there. But InvokeStream does not return before onUpdate does. nil is Invoke.
//
// ErrTooLarge: more than Config.MaxPartial of output came ahead of the answer.
func (c *Community) InvokeStream(ctx context.Context, id MemberID, capability string, payload Signal, onUpdate func(Update)) (Reply, error) {
	op := operation{"invoke", capability, "on"}
	m, l, known, err := c.outbound.provider(id, capability)
	if err != nil {
		return Reply{}, op.failed(m, err)
	}
	input, output := known.schemas(c.cfg.Logger, m.Node)
	if len(payload.Data) <= maxCheckedBefore {
		if err := input.check(payload.Data, payload.ContentType); err != nil && !errors.Is(err, errTooLargeToCheck) {
			return Reply{}, op.failed(m, Explain(ErrInvalid, "the input: "+err.Error()))
		}
	}
	var listen func(Update)
	var updates *updateFilter
	if onUpdate != nil {
		var abort context.CancelCauseFunc
		ctx, abort = context.WithCancelCause(ctx)
		defer abort(nil)
		updates = &updateFilter{onUpdate: onUpdate, lease: l, limit: c.cfg.MaxPartial, begun: time.Now(), abort: abort}
		listen = updates.receive
	}
	reply, err := c.outbound.carry(ctx, op, m, l, capability, payload, listen)
	if updates != nil && updates.failed != nil {
		err = op.failed(m, updates.failed)
	}
	if err != nil {
		return Reply{}, err
	}
	if err := output.check(reply.Data, reply.ContentType); err != nil && !errors.Is(err, errTooLargeToCheck) {
		return Reply{}, op.failed(m, Explain(ErrAgentFailed, "its answer does not fit its output schema: "+err.Error()))
	}
	return reply, nil
}

// operation is what is tried on a member; it is put into words when it fails.
type operation struct{ verb, object, preposition string }

func (op operation) failed(m Member, err error) error {
	return &Error{Op: op.verb + " " + printable(op.object) + " " + op.preposition, Member: m.Name, Err: err}
}

// localAgent returns an agent of this node, nil if it is not one.
func (r *roster) localAgent(id MemberID) *localAgent {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.agents[id]
}

// receiver returns a member of another node that accepts a perception, and the lease by which it can be
// reached now.
func (o *outbound) receiver(id MemberID, perception string) (Member, *Lease, error) {
	o.roster.mu.RLock()
	defer o.roster.mu.RUnlock()
	return o.route(id, func(m Member) bool { return slices.Contains(m.Accepts, perception) }, ErrNotAccepted)
}

// provider is receiver for a capability, with what is known of it; nil if it is not the node's own.
func (o *outbound) provider(id MemberID, capability string) (m Member, l *Lease, known *remoteCapability, err error) {
	o.roster.mu.RLock()
	defer o.roster.mu.RUnlock()
	if a := o.roster.agents[id]; a != nil {
		return a.self, nil, nil, ErrLocalMember
	}
	if id == MemberID(o.cfg.Node) {
		return Member{Name: o.cfg.Name}, nil, nil, ErrLocalMember
	}
	m, l, err = o.route(id, func(m Member) bool { return slices.Contains(m.Provides, capability) }, ErrNotProvided)
	if err == ErrNotProvided && m.IsDraining() {
		err = DrainingError(m.Name) // it withholds what it provides otherwise
	}
	if err == nil && m.ID == MemberID(m.Node) {
		known = o.roster.nodes[m.Node].capabilities[capability]
	}
	return m, l, known, err
}

// route returns a member of another node and the lease by which it can be reached now; the error is unfit
// if fits says no. It needs roster.mu, or its read lock.
func (o *outbound) route(id MemberID, fits func(Member) bool, unfit error) (Member, *Lease, error) {
	m, ok := o.roster.remote[id]
	if !ok {
		return Member{Name: printable(string(id))}, nil, ErrNotFound
	}
	if !fits(m) {
		return m, nil, unfit
	}
	lease := o.roster.nodes[m.Node].lease
	if !m.Available || lease == nil {
		return m, nil, ErrUnavailable
	}
	return m, lease, nil
}

// newCall makes the call that carries s to m, whose node has the lease l. It is the only check of the size of
// a request on the caller's side.
func (o *outbound) newCall(ctx context.Context, m Member, l *Lease, capability string, s Signal) (Call, error) {
	switch {
	case len(s.Data) > o.cfg.MaxMessage:
		return Call{}, fmt.Errorf("%w: %d bytes, at most %d may leave this node", ErrTooLarge, len(s.Data), o.cfg.MaxMessage)
	case l.peer.MaxMessage > 0 && len(s.Data) > l.peer.MaxMessage:
		return Call{}, fmt.Errorf("%w: %d bytes, %s takes at most %d", ErrTooLarge, len(s.Data), l.peer.Name, l.peer.MaxMessage)
	case len(s.OnBehalf) > MaxOnBehalf:
		return Call{}, fmt.Errorf("%w: the constraints on whose behalf it is have %d bytes, at most %d may leave this node", ErrTooLarge, len(s.OnBehalf), MaxOnBehalf)
	case ctx.Err() != nil:
		return Call{}, context.Cause(ctx)
	}
	call := Call{ID: newID(), Member: m.ID, Capability: capability, Payload: s.Data, ContentType: s.ContentType, Requester: s.Requester, OnBehalf: s.OnBehalf}
	if m.ID == MemberID(m.Node) {
		call.Member = ""
	}
	return call, nil
}

// carry sends a call to another node. It fails as soon as the lease is retired, and what comes after
// that does not count.
func (o *outbound) carry(ctx context.Context, op operation, m Member, l *Lease, capability string, s Signal, listen func(Update)) (_ Reply, err error) {
	ctx, end := o.cfg.beginCall(ctx, CallInfo{Node: m.Node, Capability: capability})
	defer func() { end(err) }()
	call, err := o.newCall(ctx, m, l, capability, s)
	if err != nil {
		return Reply{}, op.failed(m, err)
	}
	call.Trace, call.Listen = TraceOf(ctx), listen
	call.Accept, _ = ctx.Value(acceptanceKey{}).(func() error)
	under := l.calls.Begin(ctx, o.callTimeout(ctx))
	defer under.Close()
	reply, err := o.cfg.Network.Invoke(under, m.Node, call)
	switch {
	case l.valid.Err() != nil:
		err = fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(l.valid))
	case errors.Is(err, context.Canceled) && under.Err() == nil:
		err = fmt.Errorf("%w: its node gave up", ErrUnavailable) // it is ending
	case err == nil && len(reply.Data) > o.cfg.MaxMessage:
		err = fmt.Errorf("%w: the reply has %d bytes, at most %d may come in", ErrTooLarge, len(reply.Data), o.cfg.MaxMessage)
	}
	if err != nil {
		return Reply{}, op.failed(m, err)
	}
	return reply, nil
}
