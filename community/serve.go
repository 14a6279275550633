package community

import (
	"context"
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

// MaxOnBehalf limits Signal.OnBehalf between nodes, in bytes: several hundred rules.
const MaxOnBehalf = 32 << 10

// inbound serves the calls of other nodes.
type inbound struct {
	cfg    *Config
	roster *roster
	*traffic
}

func newInbound(cfg *Config, r *roster) *inbound { return &inbound{cfg, r, newTraffic(cfg)} }

// Serve answers a call of an authenticated peer, for the Network. It checks, in this order, the size,
// Config.Authorize and the number of active calls, and only then the target and the payload: a peer that is not
// allowed learns nothing about them. Refused calls are counted (Refusals). The returned error is fit for the peer:
// one of this package or of context, with at most a short message (Explain).
func (c *Community) Serve(ctx context.Context, from Peer, call Call) (Reply, error) {
	in := &inboundCall{inbound: c.inbound, from: from, call: call}
	reply, err := in.serve(ctx)
	if err == nil {
		err = in.checkReplySize(len(reply.Data))
	}
	if err != nil {
		return Reply{}, in.failed(err)
	}
	return reply, nil
}

// ServeTell puts a signal of an authenticated peer into the mailbox of an agent of this node, for the Network. It
// makes the checks of Serve in the same order, and counts its refusals. The signal counts as an active call
// until the agent has handled it.
func (c *Community) ServeTell(from Peer, call Call, done func(error)) error {
	in := &inboundCall{inbound: c.inbound, from: from, call: call}
	if err := in.serveTell(done); err != nil {
		return in.failed(err)
	}
	return nil
}

// inboundCall is one call of another node while it is checked and handled.
type inboundCall struct {
	*inbound
	from   Peer
	call   Call
	caller *caller
}

// serve runs the checks and dispatches the call, with the deadline and the trace in its context.
func (c *inboundCall) serve(ctx context.Context) (_ Reply, err error) {
	if err := c.begin(); err != nil {
		return Reply{}, err
	}
	defer c.release(c.caller)
	ctx, cancel := c.withDeadline(ctx)
	defer cancel()
	if c.call.Trace != (Trace{}) {
		ctx = WithTrace(ctx, c.call.Trace)
	}
	ctx, end := c.cfg.beginCall(ctx, CallInfo{Node: c.from.ID, Served: true, Capability: c.call.Capability})
	defer func() { end(err) }()
	if c.call.Listen != nil {
		return c.dispatchWithUpdates(ctx)
	}
	return c.dispatch(ctx)
}

// serveTell runs the checks and posts the signal. done is called if and only if it returns nil.
func (c *inboundCall) serveTell(done func(error)) error {
	if err := c.begin(); err != nil {
		return err
	}
	a, err := c.agent()
	if err != nil {
		c.release(c.caller)
		if c.call.Member == "" { // a capability is called for its answer
			err = ErrNotProvided
		}
		return err
	}
	handled := func() {
		a.inbound.Add(-1)
		c.release(c.caller)
	}
	err = a.post(c.signal(), func(err error) {
		handled()
		if err != nil {
			err = c.failed(err)
		}
		done(err)
	})
	if err != nil {
		handled()
	}
	return c.countBusy(err)
}

// begin runs the checks that do not need the call's target. On success the call counts as active, and the caller
// must call traffic.release.
func (c *inboundCall) begin() error {
	if c.caller = c.callerOf(c.from.ID); c.caller == nil {
		return c.refuse(RefusedNode, Explain(ErrBusy, fmt.Sprintf("%d nodes have calls under way on %s", maxCallers, c.cfg.Name)))
	}
	if err := c.checkSize(); err != nil {
		return c.refuse(RefusedSize, err)
	}
	c.call.Requester = append([]string{string(c.from.ID)}, c.call.Requester...)
	if err := c.authorize(); err != nil {
		if errors.Is(err, ErrUnavailable) || errors.Is(err, ErrBusy) { // nothing was decided, or it is allowed and not now
			return c.refuse(RefusedUndecided, err)
		}
		if !c.allowDenial(c.caller) {
			return c.refuse(RefusedRate, Explain(ErrBusy, fmt.Sprintf("%s refuses up to %v calls of this node a second, %d at once, and these were more", c.cfg.Name, c.cfg.RefusalRate, c.cfg.RefusalBurst)))
		}
		c.refuse(RefusedDenied, err)
		return ErrDenied
	}
	if !c.acquire(c.caller, c.cfg.MaxNodeCalls) {
		return c.refuse(RefusedNode, Explain(ErrBusy, fmt.Sprintf("%s serves %d calls of other nodes at a time (limits.node_calls), and this node has its share of them", c.cfg.Name, c.cfg.MaxNodeCalls)))
	}
	return nil
}

// checkReplySize returns ErrTooLarge when this node does not send, or the caller does not take, a reply of size
// bytes. It is the only check of the size of a reply on the provider's side.
func (c *inboundCall) checkReplySize(size int) error {
	switch {
	case size > c.cfg.MaxMessage:
		return c.refuse(RefusedSize, Explain(ErrTooLarge, fmt.Sprintf("the reply has %d bytes, %s sends at most %d", size, c.cfg.Name, c.cfg.MaxMessage)))
	case c.call.MaxReply > 0 && size > c.call.MaxReply:
		return c.refuse(RefusedSize, Explain(ErrTooLarge, fmt.Sprintf("the reply has %d bytes, its caller takes at most %d", size, c.call.MaxReply)))
	}
	return nil
}

// checkSize is the only check of the size of a request on the provider's side.
func (c *inboundCall) checkSize() error {
	switch {
	case len(c.call.Payload) > c.cfg.MaxMessage:
		return Explain(ErrTooLarge, fmt.Sprintf("this node takes %d bytes", c.cfg.MaxMessage))
	case len(c.call.Requester) > maxRequesters || slices.ContainsFunc(c.call.Requester, func(r string) bool { return len(r) > maxRequester }):
		return Explain(ErrTooLarge, "the chain of requesters")
	case len(c.call.OnBehalf) > MaxOnBehalf:
		return Explain(ErrTooLarge, "the constraints on whose behalf it is")
	}
	return nil
}

// authorize calls Config.Authorize. It refuses the call if there is none or it panics.
func (c *inboundCall) authorize() (err error) {
	if c.cfg.Authorize == nil {
		return errors.New("no authoriser: this node allows no calls")
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the authoriser panicked: %v", p)
		}
	}()
	return c.cfg.Authorize(c.from, c.withoutPayload())
}

// withoutPayload returns the call as Authorize and OnRefused may see it.
func (c *inboundCall) withoutPayload() Call {
	call := c.call
	call.Payload, call.Listen, call.Accept = nil, nil, nil
	return call
}

// isForNode reports whether the call is for a capability of this node.
func (c *inboundCall) isForNode() bool {
	return c.call.Member == "" || c.call.Member == MemberID(c.cfg.Node)
}

// dispatch passes the call to the capability or the agent it is for.
func (c *inboundCall) dispatch(ctx context.Context) (Reply, error) {
	if c.isForNode() {
		return c.provide(ctx)
	}
	a, err := c.agent()
	if err != nil {
		return Reply{}, err
	}
	defer a.inbound.Add(-1)
	if err := c.accept(); err != nil {
		return Reply{}, err
	}
	reply, err := a.ask(ctx, c.signal())
	return reply, c.countBusy(err)
}

// accept tells a caller that wants to know it that the call is about to begin, and returns nil when it may.
func (c *inboundCall) accept() error {
	if c.call.Accept == nil {
		return nil
	}
	return c.call.Accept()
}

// signal returns the call as the Signal that the agent or provider gets.
func (c *inboundCall) signal() Signal {
	return Signal{Perception: strings.TrimPrefix(c.call.Capability, PerceptionPrefix), Data: c.call.Payload,
		ContentType: c.call.ContentType, Requester: c.call.Requester, OnBehalf: c.call.OnBehalf}
}

// countBusy counts a signal as refused if the agent's mailbox was full.
func (c *inboundCall) countBusy(err error) error {
	if err == errMailbox {
		return c.refuse(RefusedAgent, err)
	}
	return err
}

// agent returns the agent that a signal is for. On success the signal counts among the calls of peers that the agent
// handles, and the caller must decrement inbound.
func (c *inboundCall) agent() (*localAgent, error) {
	c.roster.mu.RLock()
	a, ok := c.roster.agents[c.call.Member]
	closing := c.roster.closing
	c.roster.mu.RUnlock()
	switch {
	case closing:
		return nil, ErrUnavailable
	case !ok:
		return nil, ErrNotFound
	case !strings.HasPrefix(c.call.Capability, PerceptionPrefix):
		return nil, ErrNotProvided
	}
	if int(a.inbound.Add(1)) > c.cfg.MaxAgentCalls {
		a.inbound.Add(-1)
		return nil, c.refuse(RefusedAgent, Explain(ErrBusy, fmt.Sprintf("%s lets it take %d calls of other nodes at a time", c.cfg.Name, c.cfg.MaxAgentCalls)))
	}
	return a, nil
}

// provide answers a call of a capability of this node.
func (c *inboundCall) provide(ctx context.Context) (Reply, error) {
	c.roster.mu.RLock()
	o, ok := c.roster.offers[c.call.Capability]
	closing := c.roster.closing
	c.roster.mu.RUnlock()
	switch {
	case closing:
		return Reply{}, ErrUnavailable
	case !ok:
		return Reply{}, ErrNotProvided
	case o.drains && c.cfg.Draining.IsOn():
		return Reply{}, c.refuse(RefusedCapability, DrainingError(c.cfg.Name))
	}
	if o.room != nil {
		select {
		case o.room <- struct{}{}:
			defer func() { <-o.room }()
		default:
			return Reply{}, c.refuse(RefusedCapability, Explain(ErrBusy, fmt.Sprintf("%d calls of this capability are served at a time", cap(o.room))))
		}
	}
	s := c.signal()
	s.Perception = ""
	if err := o.input.check(s.Data, s.ContentType); err != nil {
		why, reason := ErrInvalid, RefusedInvalid
		if errors.Is(err, errTooLargeToCheck) {
			why, reason = ErrTooLarge, RefusedSize
		}
		return Reply{}, c.refuse(reason, Explain(why, "the input: "+err.Error()))
	}
	if err := c.accept(); err != nil {
		return Reply{}, err
	}
	reply, err := o.run(ctx, c.cfg.Logger, s)
	if err != nil {
		return Reply{}, err
	}
	if o.fits {
		return reply, nil
	}
	if err := o.output.check(reply.Data, reply.ContentType); err != nil && !errors.Is(err, errTooLargeToCheck) {
		c.cfg.Logger.Error("answer does not fit its schema", "capability", o.Name) // the error quotes the answer
		return Reply{}, Explain(ErrAgentFailed, "its answer does not fit its output schema")
	}
	return reply, nil
}

// failed logs the full error of a call, and returns what its caller may know of it.
func (c *inboundCall) failed(err error) error {
	c.cfg.Logger.Debug("call failed", "node", c.from.ID, "call", printable(c.call.ID), "member", printable(string(c.call.Member)),
		"capability", printable(c.call.Capability), "trace", c.call.Trace.String(), "err", err)
	return publicError(err)
}
