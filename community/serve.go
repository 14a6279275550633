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

// MaxOnBehalf is how long Signal.OnBehalf may be between nodes, in bytes: several hundred rules.
const MaxOnBehalf = 32 << 10

// inbound serves the calls of other nodes.
type inbound struct {
	cfg    *Config
	roster *roster
	*traffic
}

func newInbound(cfg *Config, r *roster) *inbound { return &inbound{cfg, r, newTraffic(cfg)} }

// Serve answers a call from an authenticated peer, for the Network. It looks, in this order, at the
// size, at Config.Authorize and at the number of calls under way, and
// only then at the member it is for, and at the payload. Refused calls are counted (Refusals). An error
// that it returns is fit for the peer: one of this package or context's, with at most a short
// message (Explain).
func (in *inbound) Serve(ctx context.Context, from Peer, call Call) (Reply, error) {
	c := &inboundCall{inbound: in, from: from, call: call}
	reply, err := c.serve(ctx)
	if err == nil {
		err = c.checkReplySize(len(reply.Data))
	}
	if err != nil {
		return Reply{}, c.failed(err)
	}
	return reply, nil
}

// Take puts a signal of an authenticated peer into the mailbox of one of our agents, for the Network. It
// makes the same checks as Serve, in the same order, and counts what it refuses; a signal is under way
// until the agent is through with it.
func (in *inbound) Take(from Peer, call Call, done func(error)) error {
	c := &inboundCall{inbound: in, from: from, call: call}
	if err := c.take(done); err != nil {
		return c.failed(err)
	}
	return nil
}

// inboundCall is a call on its way to the member or the capability it is for.
type inboundCall struct {
	*inbound
	from   Peer
	call   Call
	caller *caller
}

func (c *inboundCall) serve(ctx context.Context) (Reply, error) {
	if err := c.begin(); err != nil {
		return Reply{}, err
	}
	defer c.release(c.caller)
	ctx, cancel := c.withDeadline(ctx)
	defer cancel()
	if c.call.Trace != (Trace{}) {
		ctx = WithTrace(ctx, c.call.Trace)
	}
	if c.call.Listen != nil {
		return c.dispatchWithUpdates(ctx)
	}
	return c.dispatch(ctx)
}

func (c *inboundCall) take(done func(error)) error {
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

// begin makes the checks that do not need the call's target. On success the call has a place among those
// under way, and traffic.release must be called.
func (c *inboundCall) begin() error {
	if c.caller = c.arrive(c.from.ID); c.caller == nil {
		return c.refuse(RefusedNode, Explain(ErrBusy, fmt.Sprintf("%d nodes have calls under way on %s", maxCallers, c.cfg.Name)))
	}
	if err := c.checkSize(); err != nil {
		return c.refuse(RefusedSize, err)
	}
	c.call.Requester = append([]string{string(c.from.ID)}, c.call.Requester...)
	if err := c.authorize(); err != nil {
		if errors.Is(err, ErrUnavailable) { // nothing was decided
			return c.refuse(RefusedUndecided, err)
		}
		if !c.deny(c.caller) {
			return c.refuse(RefusedRate, Explain(ErrBusy, fmt.Sprintf("%s refuses up to %v calls of this node a second (limits.rate), %d at once, and these were more", c.cfg.Name, c.cfg.RefusalRate, c.cfg.RefusalBurst)))
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

// authorize asks Config.Authorize. Without one, and with one that panics, nothing is allowed.
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

// withoutPayload is the call as others in this node may look at it.
func (c *inboundCall) withoutPayload() Call {
	call := c.call
	call.Payload, call.Listen = nil, nil
	return call
}

// isForNode reports whether the call is for a capability of this node.
func (c *inboundCall) isForNode() bool {
	return c.call.Member == "" || c.call.Member == MemberID(c.cfg.Node)
}

// dispatch gives the call to the capability or the agent it is for.
func (c *inboundCall) dispatch(ctx context.Context) (Reply, error) {
	if c.isForNode() {
		return c.provide(ctx)
	}
	a, err := c.agent()
	if err != nil {
		return Reply{}, err
	}
	defer a.inbound.Add(-1)
	reply, err := a.ask(ctx, c.signal())
	return reply, c.countBusy(err)
}

func (c *inboundCall) signal() Signal {
	return Signal{Perception: strings.TrimPrefix(c.call.Capability, PerceptionPrefix), Data: c.call.Payload,
		ContentType: c.call.ContentType, Requester: c.call.Requester, OnBehalf: c.call.OnBehalf}
}

// countBusy counts a signal that found the agent's mailbox full as refused.
func (c *inboundCall) countBusy(err error) error {
	if err == errMailbox {
		return c.refuse(RefusedAgent, err)
	}
	return err
}

// agent returns the agent that a signal is for. On success the signal counts among those of peers that the
// agent has, and inbound must be decremented.
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
		return nil, c.refuse(RefusedAgent, Explain(ErrBusy, fmt.Sprintf("it takes %d calls of other nodes at a time (limits.agent_calls of %s)", c.cfg.MaxAgentCalls, c.cfg.Name)))
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
	if err := o.input.check(s.Data, s.ContentType, c.cfg.MaxDepth); err != nil {
		why, reason := ErrInvalid, RefusedInvalid
		if errors.Is(err, errTooMuch) {
			why, reason = ErrTooLarge, RefusedSize
		}
		return Reply{}, c.refuse(reason, Explain(why, "the input: "+err.Error()))
	}
	reply, err := o.run(ctx, c.cfg.Logger, s)
	if err != nil {
		return Reply{}, err
	}
	if err := o.output.check(reply.Data, reply.ContentType, c.cfg.MaxDepth); err != nil && !errors.Is(err, errTooMuch) {
		c.cfg.Logger.Error("answer does not fit its schema", "capability", o.Name) // the error quotes the answer
		return Reply{}, Explain(ErrAgentFailed, "its answer does not fit its output schema")
	}
	return reply, nil
}

// failed logs why a call came to nothing, and returns what its caller may know of it.
func (c *inboundCall) failed(err error) error {
	c.cfg.Logger.Debug("call failed", "node", c.from.ID, "call", printable(c.call.ID), "member", printable(string(c.call.Member)),
		"capability", printable(c.call.Capability), "trace", c.call.Trace.String(), "err", err)
	return publicError(err)
}
