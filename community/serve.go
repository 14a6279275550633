package community

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Provider answers the calls of a capability that this node offers. payload has no Perception. Many
// goroutines may call it at once; it must return when ctx ends. A panic is the caller's
// ErrAgentFailed, and costs nobody else anything. Of an error, only what errors.go and Explain say
// reaches the caller.
type Provider func(ctx context.Context, payload Signal) (Reply, error)

type offer struct {
	Capability
	provide Provider
}

// Offer lets other nodes see a capability of this node, and call it as far as Config.Authorize allows.
// Its name is like a perception's, and must not begin with PerceptionPrefix; the description may have
// 4 KiB, each schema 16 KiB of JSON; there can be 256. To change one, Withdraw it first.
func (c *Community) Offer(capability Capability, provide Provider) error {
	fail := func(err error) error {
		return &Error{Op: "offer", Member: printable(capability.Name), Err: err}
	}
	if provide == nil {
		return fail(errors.New("no provider: it answers the calls"))
	}
	if err := checkCapability(capability); err != nil {
		return fail(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.offers[capability.Name]; ok {
		return fail(errors.New("it is offered already: withdraw it first"))
	}
	if len(c.offers) >= maxCapabilities {
		return fail(fmt.Errorf("%w: a node can offer %d capabilities", ErrBusy, maxCapabilities))
	}
	capability.Input, capability.Output = slices.Clone(capability.Input), slices.Clone(capability.Output)
	c.offers[capability.Name] = offer{capability, provide}
	c.publishOffers()
	return nil
}

// Withdraw ends an Offer. Calls under way go on. ErrNotFound: there is no such offer.
func (c *Community) Withdraw(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.offers[name]; !ok {
		return &Error{Op: "withdraw", Member: printable(name), Err: ErrNotFound}
	}
	delete(c.offers, name)
	c.publishOffers()
	return nil
}

// Limits of the chain of requesters that comes with a call, so that no peer can make it grow without
// end by passing a call around.
const (
	maxRequesters = 32
	maxRequester  = 256 // bytes
)

// Serve answers a call from an authenticated peer, for the Network. It looks, in this order, at the
// size, at Config.Authorize, at the number of calls under way, and only then at whom it is for. What it
// returns as an error is fit for the peer: one of this package or context's, with at most a short
// message (Explain).
func (c *Community) Serve(ctx context.Context, from Peer, call Call) (Reply, error) {
	reply, err := c.serve(ctx, from, call)
	if err == nil && len(reply.Data) > c.cfg.MaxMessage {
		err = Explain(ErrTooLarge, "the reply is larger than this node sends")
	}
	if err != nil {
		c.cfg.Logger.Debug("call failed", "node", from.ID, "call", printable(call.ID), "member", printable(string(call.Member)),
			"capability", printable(call.Capability), "err", err)
		return Reply{}, publicError(err)
	}
	return reply, nil
}

func (c *Community) serve(ctx context.Context, from Peer, call Call) (Reply, error) {
	if len(call.Payload) > c.cfg.MaxMessage {
		return Reply{}, Explain(ErrTooLarge, fmt.Sprintf("this node takes %d bytes", c.cfg.MaxMessage))
	}
	if len(call.Requester) > maxRequesters || slices.ContainsFunc(call.Requester, func(r string) bool { return len(r) > maxRequester }) {
		return Reply{}, Explain(ErrTooLarge, "the chain of requesters")
	}
	call.Requester = append([]string{string(from.ID)}, call.Requester...)
	if err := c.allow(from, call); err != nil {
		c.cfg.Logger.Warn("call denied", "node", from.ID, "member", printable(string(call.Member)), "capability", printable(call.Capability), "err", err)
		return Reply{}, ErrDenied
	}
	if !c.calls.enter(from.ID, c.cfg.MaxNodeCalls) {
		return Reply{}, Explain(ErrBusy, "too many calls of this node at a time")
	}
	defer c.calls.leave(from.ID)
	ctx, cancel := c.capped(ctx)
	defer cancel()
	s := Signal{Data: call.Payload, ContentType: call.ContentType, Requester: call.Requester}
	if call.Member == "" || call.Member == MemberID(c.cfg.Node) {
		return c.provide(ctx, call.Capability, s)
	}
	return c.accept(ctx, call, s)
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
	call.Payload = nil
	return c.cfg.Authorize(from, call)
}

// provide answers a call to this node itself.
func (c *Community) provide(ctx context.Context, capability string, s Signal) (_ Reply, err error) {
	c.mu.RLock()
	o, ok := c.offers[capability]
	closing := c.closing
	c.mu.RUnlock()
	switch {
	case closing:
		return Reply{}, ErrUnavailable
	case !ok:
		return Reply{}, ErrNotProvided
	}
	defer func() {
		if p := recover(); p != nil {
			c.cfg.Logger.Error("provider panicked", "capability", capability, "panic", fmt.Sprint(p))
			err = ErrAgentFailed
		}
	}()
	return o.provide(ctx, s)
}

// accept gives a signal of a peer to one of our agents.
func (c *Community) accept(ctx context.Context, call Call, s Signal) (Reply, error) {
	c.mu.RLock()
	r, ok := c.residents[call.Member]
	closing := c.closing
	c.mu.RUnlock()
	switch {
	case closing:
		return Reply{}, ErrUnavailable
	case !ok:
		return Reply{}, ErrNotFound
	}
	if s.Perception, ok = strings.CutPrefix(call.Capability, PerceptionPrefix); !ok {
		return Reply{}, ErrNotProvided
	}
	defer r.inbound.Add(-1)
	if int(r.inbound.Add(1)) > c.cfg.MaxAgentCalls {
		return Reply{}, Explain(ErrBusy, "too many calls of other nodes at a time")
	}
	return r.deliver(ctx, s)
}

// traffic counts the calls under way of each peer.
type traffic struct {
	mu     sync.Mutex
	flying map[NodeID]int // no entry with 0; guarded by mu
}

func (t *traffic) enter(id NodeID, limit int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.flying[id] >= limit {
		return false
	}
	t.flying[id]++
	return true
}

func (t *traffic) leave(id NodeID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.flying[id]--; t.flying[id] == 0 {
		delete(t.flying, id)
	}
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
