package community

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"symbio/actor/term"

	"golang.org/x/time/rate"
)

// Undelivered is what became of signals of Tell that were not handled.
type Undelivered struct {
	// Node is where they were to go.
	Node NodeID
	// Member and Perception are whom they were for and as what; both "" when that is not known.
	Member     MemberID
	Perception string
	// Count is how many.
	Count uint64
	// Err is why: what Send would have returned. ErrUnavailable says that the connection ended before
	// the node had told what became of them: they may have been handled.
	Err error
}

// tells is what a community knows of signals whose senders do not wait.
type tells struct {
	under  term.Set      // those that our agents have
	lost   atomic.Uint64 // of ours
	logged *rate.Limiter
}

// Tell gives a signal to a member, here or on another node, and does not wait. nil says that it is in the
// member's mailbox, or on its way to the member's node: not that it will be handled. It is handled once
// or not at all, and the signals that one goroutine tells a member in their order; nothing is said about
// the order of a Tell and a Send. s.Data is not copied: nobody may change it afterwards.
//
// Tell does not block. ErrBusy: the mailbox is full, or too much is on its way to that node; try again
// later. ErrNotFound, ErrNotAccepted, ErrUnavailable, ErrStopped and ErrTooLarge as for Send; nothing was
// done then. Of ctx only its end is looked at, once: the agent's context has a deadline of
// Config.MaxCall.
//
// What goes wrong later Config.Undelivered is told, and Undelivered counts: that the other node refused
// the signal, that the agent failed, and that the connection ended before it was known.
func (c *Community) Tell(ctx context.Context, id MemberID, s Signal) error {
	op := deed{"tell", s.Perception, "to"}
	c.mu.RLock()
	r := c.residents[id]
	c.mu.RUnlock()
	if r == nil {
		return c.tellAway(ctx, op, id, s)
	}
	err := context.Cause(ctx)
	if err == nil {
		err = r.post(s, func(err error) {
			if err != nil {
				c.NotDelivered(Undelivered{Node: c.cfg.Node, Member: id, Perception: s.Perception, Count: 1, Err: err})
			}
		})
	}
	if err != nil {
		return op.failed(r.self, err)
	}
	return nil
}

// post is deliver for who does not wait. done is called by the agent's actor, unless post returns an
// error.
func (r *resident) post(s Signal, done func(error)) error {
	if !slices.Contains(r.self.Accepts, s.Perception) {
		return ErrNotAccepted
	}
	if r.leaving.Load() {
		return ErrStopped
	}
	under := r.c.tells.under.Begin(context.Background(), r.c.cfg.MaxCall)
	err := r.ref.Post(under, &exchange{signal: s}, func(err error) {
		under.Close()
		if err != nil {
			err = explain(err)
		}
		done(err)
	})
	if err != nil {
		under.Close()
		return explain(err)
	}
	return nil
}

func (c *Community) tellAway(ctx context.Context, op deed, id MemberID, s Signal) error {
	m, _, err := c.reach(id, func(m Member) error {
		if !slices.Contains(m.Accepts, s.Perception) {
			return ErrNotAccepted
		}
		return nil
	})
	if err == nil && len(s.OnBehalf) > MaxOnBehalf {
		err = fmt.Errorf("%w: what it is held to on whose behalf it is", ErrTooLarge)
	}
	if err == nil && len(s.Data) > c.cfg.MaxMessage {
		err = fmt.Errorf("%w: %d bytes, at most %d may leave this node", ErrTooLarge, len(s.Data), c.cfg.MaxMessage)
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = c.cfg.Network.Tell(m.Node, Call{ID: newID(), Member: m.ID, Capability: PerceptionPrefix + s.Perception,
			Payload: s.Data, ContentType: s.ContentType, Requester: s.Requester, OnBehalf: s.OnBehalf})
	}
	if err != nil {
		return op.failed(m, err)
	}
	return nil
}

// Take puts a signal of an authenticated peer into the mailbox of one of our agents, for the Network. It
// looks at the same things as Serve, in the same order, and counts what it refuses; a signal is under way
// until the agent is through with it.
func (c *Community) Take(from Peer, call Call, done func(error)) error {
	in := &inbound{c: c, from: from, call: call}
	if err := in.take(done); err != nil {
		return in.failed(err)
	}
	return nil
}

func (in *inbound) take(done func(error)) error {
	if err := in.admit(); err != nil {
		return err
	}
	r, s, err := in.find()
	if err != nil {
		in.c.calls.leave(in.visitor)
		if in.call.Member == "" { // who wants a capability waits for what it says
			err = ErrNotProvided
		}
		return err
	}
	err = r.post(s, func(err error) {
		in.leave(r)
		if err != nil {
			err = in.failed(err)
		}
		done(err)
	})
	if err != nil {
		in.leave(r)
	}
	if err == errMailbox {
		return in.refuse(RefusedAgent, err, err)
	}
	return err
}

// leave is for a signal that r is through with.
func (in *inbound) leave(r *resident) {
	r.inbound.Add(-1)
	in.c.calls.leave(in.visitor)
}

// failed logs why a call came to nothing, and returns what its caller may know of it.
func (in *inbound) failed(err error) error {
	in.c.cfg.Logger.Debug("call failed", "node", in.from.ID, "call", printable(in.call.ID), "member", printable(string(in.call.Member)),
		"capability", printable(in.call.Capability), "trace", in.call.Trace.String(), "err", err)
	return publicError(err)
}

// NotDelivered counts and tells that signals came to nothing, for the Network. What a peer says of its
// own members is believed, and of nobody else.
func (c *Community) NotDelivered(u Undelivered) {
	if u.Count == 0 {
		return
	}
	if u.Err == nil {
		u.Err = ErrUnavailable
	}
	perception := strings.TrimPrefix(u.Perception, PerceptionPrefix)
	if !c.mayBeOf(u.Node, u.Member) || checkName("perception", perception) != nil {
		u.Member, perception = "", ""
	}
	u.Perception = perception
	c.tells.lost.Add(u.Count)
	if c.tells.logged.Allow() {
		c.cfg.Logger.Warn("signals not delivered", "node", u.Node, "member", u.Member, "perception", u.Perception, "count", u.Count, "err", u.Err)
	}
	if c.cfg.Undelivered != nil {
		c.cfg.Undelivered(u)
	}
}

// mayBeOf reports whether a member is, or may have been, one of the node's.
func (c *Community) mayBeOf(node NodeID, id MemberID) bool {
	if checkID(string(id)) != nil {
		return false
	}
	if node == c.cfg.Node {
		return true
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	m, known := c.remote[id]
	_, ours := c.residents[id]
	return !ours && (!known || m.Node == node)
}

// Undelivered returns how many signals of Tell were not handled, or perhaps not.
func (c *Community) Undelivered() uint64 { return c.tells.lost.Load() }
