package community

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Limits of the chain of requesters that comes with a call, so that no peer can make it grow without
// end by passing a call around.
const (
	maxRequesters = 32
	maxRequester  = 256 // bytes
)

// MaxOnBehalf is how long Signal.OnBehalf may be between nodes, in bytes: several hundred rules.
const MaxOnBehalf = 32 << 10

// Serve answers a call from an authenticated peer, for the Network. It looks, in this order, at the
// rate of that peer's calls, at the size, at Config.Authorize, at the number of calls under way, and
// only then at whom it is for, and at what it says. What is refused is counted (Refusals). What it
// returns as an error is fit for the peer: one of this package or context's, with at most a short
// message (Explain).
func (c *Community) Serve(ctx context.Context, from Peer, call Call) (Reply, error) {
	in := &inbound{c: c, from: from, call: call}
	reply, err := in.serve(ctx)
	if err == nil && len(reply.Data) > c.cfg.MaxMessage {
		err = Explain(ErrTooLarge, "the reply is larger than this node sends")
		err = in.refuse(RefusedSize, err, err)
	}
	if err != nil {
		return Reply{}, in.failed(err)
	}
	return reply, nil
}

func (in *inbound) serve(ctx context.Context) (Reply, error) {
	c, call := in.c, &in.call
	if err := in.admit(); err != nil {
		return Reply{}, err
	}
	defer c.calls.leave(in.visitor)
	ctx, cancel := c.capped(ctx, call)
	defer cancel()
	if call.Trace != (Trace{}) {
		ctx = WithTrace(ctx, call.Trace)
	}
	if call.Listen != nil {
		return in.narrate(ctx, in.signal())
	}
	return in.give(ctx, in.signal())
}

// admit looks at everything but whom the call is for. Who is let in leaves again.
func (in *inbound) admit() error {
	c, call := in.c, &in.call
	refuse := func(why Reason, err error) error { return in.refuse(why, err, err) }
	allowed := false
	if in.visitor, allowed = c.calls.arrive(in.from.ID); !allowed {
		return refuse(RefusedRate, Explain(ErrBusy, "too many calls of this node in a short time"))
	}
	if len(call.Payload) > c.cfg.MaxMessage {
		return refuse(RefusedSize, Explain(ErrTooLarge, fmt.Sprintf("this node takes %d bytes", c.cfg.MaxMessage)))
	}
	if len(call.Requester) > maxRequesters || slices.ContainsFunc(call.Requester, func(r string) bool { return len(r) > maxRequester }) {
		return refuse(RefusedSize, Explain(ErrTooLarge, "the chain of requesters"))
	}
	if len(call.OnBehalf) > MaxOnBehalf {
		return refuse(RefusedSize, Explain(ErrTooLarge, "what it is held to on whose behalf it is"))
	}
	call.Requester = append([]string{string(in.from.ID)}, call.Requester...)
	if err := c.allow(in.from, *call); err != nil {
		return in.refuse(RefusedDenied, err, ErrDenied)
	}
	if !c.calls.enter(in.visitor, c.cfg.MaxNodeCalls) {
		return refuse(RefusedNode, Explain(ErrBusy, "too many calls of this node at a time"))
	}
	return nil
}

// give gives a call that may be made to whom it is for.
func (in *inbound) give(ctx context.Context, s Signal) (Reply, error) {
	c, call := in.c, &in.call
	if call.Member == "" || call.Member == MemberID(c.cfg.Node) {
		return in.provide(ctx, s)
	}
	return in.accept(ctx)
}

func (in *inbound) signal() Signal {
	return Signal{Data: in.call.Payload, ContentType: in.call.ContentType, Requester: in.call.Requester, OnBehalf: in.call.OnBehalf}
}

// allow asks Config.Authorize. A nil one, a broken one and a node that is ending allow nothing.
func (c *Community) allow(from Peer, call Call) (err error) {
	if c.cfg.Authorize == nil {
		return errors.New("no authoriser: this node allows no calls")
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the authoriser panicked: %v", p)
		}
	}()
	call.Payload, call.Listen = nil, nil
	return c.cfg.Authorize(from, call)
}

// accept gives a signal of a peer to one of our agents.
func (in *inbound) accept(ctx context.Context) (Reply, error) {
	r, s, err := in.find()
	if err != nil {
		return Reply{}, err
	}
	defer r.inbound.Add(-1)
	reply, err := r.deliver(ctx, s)
	if err == errMailbox {
		return Reply{}, in.refuse(RefusedAgent, err, err)
	}
	return reply, err
}

// find returns the agent that a signal is for, with the signal counted among those of peers that the
// agent has, or why it gets none.
func (in *inbound) find() (r *resident, s Signal, err error) {
	c := in.c
	c.mu.RLock()
	r, ok := c.residents[in.call.Member]
	closing := c.closing
	c.mu.RUnlock()
	switch {
	case closing:
		return nil, s, ErrUnavailable
	case !ok:
		return nil, s, ErrNotFound
	}
	s = in.signal()
	if s.Perception, ok = strings.CutPrefix(in.call.Capability, PerceptionPrefix); !ok {
		return nil, s, ErrNotProvided
	}
	if int(r.inbound.Add(1)) > c.cfg.MaxAgentCalls {
		r.inbound.Add(-1)
		err := Explain(ErrBusy, "too many calls of other nodes at a time")
		return nil, s, in.refuse(RefusedAgent, err, err)
	}
	return r, s, nil
}

// checkCapability tells whether a capability is fit to be offered, by us or by a peer.
func checkCapability(p Capability) error {
	if err := checkProvided(p.Name); err != nil {
		return err
	}
	if err := checkText("description", p.Description, maxDescription); err != nil {
		return err
	}
	for _, schema := range []json.RawMessage{p.Input, p.Output} {
		if len(schema) > maxSchema {
			return fmt.Errorf("capability %s: a schema has %d bytes, at most %d are allowed", p.Name, len(schema), maxSchema)
		}
		if len(schema) > 0 && !json.Valid(schema) {
			return fmt.Errorf("capability %s: a schema is not JSON", p.Name)
		}
	}
	return nil
}
