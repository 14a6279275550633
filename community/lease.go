package community

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"symbio/actor/term"
)

// maxNodes is how many other nodes a community knows; each may take the memory of check.go.
const maxNodes = 1024

// neighbour is another node, from its first lease until its members are left. All is guarded by
// Community.mu.
type neighbour struct {
	peer         Peer
	lease        *Lease // the connection that counts; nil while there is none
	capabilities map[string]*service
	members      map[MemberID]struct{}
	// forget is when the members are left; zero while they were confirmed by the lease.
	forget time.Time
}

// Lease is one connection's right to say who lives on a peer. It begins with Attach, and is retired
// by Lost, Goodbye, a newer Attach of the same node, or the end of Run; then everything said
// through it is ignored. The Network calls the methods in the order of what the peer said; they do
// not block.
//
// What a peer announces is checked (admit.go): what is refused is logged and counted, the rest goes
// on.
type Lease struct {
	c    *Community
	peer Peer
	// valid ends when the lease is retired, with why as its cause.
	valid  context.Context
	retire context.CancelCauseFunc
	calls  term.Set // that go to the peer
	logged int      // refusals; guarded by c.mu
}

// errNewer retires a lease whose node has connected anew.
var errNewer = errors.New("the node has connected anew")

// Attach begins the lease of a newly connected peer, and retires any earlier one of that node: its
// members are unavailable until the Snapshot of the new one confirms them. It never returns nil.
// The lease is retired from the start when the peer has our own id, or there are too many.
func (c *Community) Attach(p Peer) *Lease {
	l := &Lease{c: c, peer: p}
	l.peer.Name = printable(p.Name)
	l.valid, l.retire = context.WithCancelCause(context.Background())
	context.AfterFunc(l.valid, func() { l.calls.End(ErrUnavailable) })
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.welcome(p); err != nil {
		l.retire(err)
		c.cfg.Logger.Error("peer refused", "node", printable(string(p.ID)), "name", l.peer.Name, "addr", p.Addr, "err", err)
		return l
	}
	n := c.nodes[p.ID]
	if n == nil {
		n = &neighbour{capabilities: map[string]*service{}, members: map[MemberID]struct{}{}}
		c.nodes[p.ID] = n
	}
	if n.lease != nil {
		c.suspend(n, errNewer)
	}
	n.peer, n.lease = l.peer, l
	c.setForget(n, time.Now().Add(c.cfg.Forget))
	c.cfg.Logger.Info("peer attached", "node", p.ID, "name", l.peer.Name, "addr", p.Addr)
	return l
}

// welcome tells whether a peer may have a lease at all.
func (c *Community) welcome(p Peer) error {
	_, known := c.nodes[p.ID]
	switch {
	case c.closing:
		return ErrStopped
	case p.ID == c.cfg.Node:
		return errors.New("it has this node's own id: is its directory a copy of this node's?")
	case !known && len(c.nodes) >= maxNodes:
		return fmt.Errorf("%w: %d nodes are known already", ErrBusy, len(c.nodes))
	}
	return checkID(string(p.ID))
}

// Peer returns whom the lease is of.
func (l *Lease) Peer() Peer { return l.peer }

// Valid returns a context that ends when the lease is retired, with the reason as its cause.
func (l *Lease) Valid() context.Context { return l.valid }

// Snapshot is all that lives on the peer: new members joined, known ones are available again, all
// others have left.
func (l *Lease) Snapshot(all Catalog) {
	members := make([]announced, len(all.Members))
	for i, m := range all.Members {
		members[i] = checkMember(m)
	}
	capabilities, faults := checkCapabilities(all.Capabilities)
	l.with(func(n *neighbour) {
		c := l.c
		c.setForget(n, time.Time{})
		n.capabilities = renew(n.capabilities, capabilities)
		for _, f := range faults {
			c.refuse(l, f.Member, f.fault)
		}
		seen := make(map[MemberID]bool, len(members))
		for _, m := range members {
			if len(seen) >= maxMembers && !seen[m.ID] && m.fault == nil {
				m.fault = errCrowd
			}
			if c.take(l, n, m) {
				seen[m.ID] = true
			}
		}
		for _, id := range sortedIDs(n) {
			if !seen[id] {
				c.leave(n, id, "its node does not name it any more")
			}
		}
	})
}

// Joined is a new member of the peer, or a known one that has changed.
func (l *Lease) Joined(m Member) { l.Updated(m) }

// Updated is a member of the peer as it is now.
func (l *Lease) Updated(m Member) {
	checked := checkMember(m)
	l.with(func(n *neighbour) {
		if _, known := n.members[m.ID]; !known && len(n.members) >= maxMembers && checked.fault == nil {
			checked.fault = errCrowd
		}
		l.c.take(l, n, checked)
	})
}

// Left is a member of the peer that is gone.
func (l *Lease) Left(id MemberID) {
	l.with(func(n *neighbour) { l.c.leave(n, id, "it left") })
}

// Lost retires the lease because the peer is silent or the connection broke: its members are
// unavailable at once, calls to it under way fail with ErrUnavailable, and unless it attaches anew
// the members are left after Config.Forget.
func (l *Lease) Lost(err error) {
	l.with(func(n *neighbour) {
		if err == nil {
			err = errors.New("the connection ended")
		}
		l.c.suspend(n, err)
		l.c.setForget(n, time.Now().Add(l.c.cfg.Forget))
		l.c.cfg.Logger.Info("peer lost", "node", l.peer.ID, "name", l.peer.Name, "err", err)
	})
}

// Goodbye retires the lease because the peer stops on purpose: its members are left at once.
func (l *Lease) Goodbye(why string) {
	l.with(func(*neighbour) {
		why = printable(why)
		if why == "" {
			why = "its node said goodbye"
		}
		l.c.cfg.Logger.Info("peer left", "node", l.peer.ID, "name", l.peer.Name, "reason", why)
		l.c.drop(l.peer.ID, why)
	})
}

// with runs f under the lock while the lease counts. This is the one place that keeps what a retired
// connection says, however late, from becoming true.
func (l *Lease) with(f func(*neighbour)) {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	n := l.c.nodes[l.peer.ID]
	if n == nil || n.lease != l {
		return
	}
	f(n)
}

// suspend retires n's lease and makes its members unavailable. It needs c.mu.
func (c *Community) suspend(n *neighbour, why error) {
	n.lease.retire(why)
	n.lease = nil
	for _, id := range sortedIDs(n) {
		if m := c.remote[id]; m.Available {
			m.Available = false
			c.remote[id] = m
			c.publish(Change{Kind: BecameUnavailable, Member: m, Why: clean(why.Error(), maxExplanation)}, false)
		}
	}
}

// leave forgets one member of n. It needs c.mu.
func (c *Community) leave(n *neighbour, id MemberID, why string) {
	if _, ok := n.members[id]; !ok {
		return
	}
	m := c.remote[id]
	delete(n.members, id)
	delete(c.remote, id)
	m.Available = false
	c.publish(Change{Kind: Left, Member: m, Why: why}, false)
}

// drop forgets a node and all its members. It needs c.mu.
func (c *Community) drop(id NodeID, why string) {
	n := c.nodes[id]
	if n.lease != nil {
		n.lease.retire(errors.New(why))
		n.lease = nil
	}
	for _, m := range sortedIDs(n) {
		c.leave(n, m, why)
	}
	delete(c.nodes, id)
}

// sortedIDs are n's members in an order that does not depend on the map.
func sortedIDs(n *neighbour) []MemberID { return slices.Sorted(maps.Keys(n.members)) }

// setForget needs c.mu. Of many nodes that come or go at a time, only the first wakes forgetting, which
// looks at them all.
func (c *Community) setForget(n *neighbour, at time.Time) {
	n.forget = at
	if at.IsZero() || !c.awaited.IsZero() && !at.Before(c.awaited) {
		return
	}
	c.awaited = at
	select {
	case c.expiry <- struct{}{}:
	default:
	}
}

// forgetting drops nodes whose time is over, until ctx ends. One timer serves them all.
func (c *Community) forgetting(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait := time.Hour
		if next := c.forget(time.Now()); !next.IsZero() {
			wait = time.Until(next)
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return nil
		case <-c.expiry:
		case <-timer.C:
		}
	}
}

// forget drops the nodes whose time has come, and returns when the next one's does; zero: never.
func (c *Community) forget(now time.Time) (next time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() { c.awaited = next }()
	for id, n := range c.nodes {
		switch {
		case n.forget.IsZero():
		case n.forget.After(now):
			if next.IsZero() || n.forget.Before(next) {
				next = n.forget
			}
		case n.lease != nil:
			// It is connected, but has not said anything yet.
			n.forget = time.Time{}
			for _, m := range sortedIDs(n) {
				c.leave(n, m, "its node does not name it any more")
			}
		default:
			c.drop(id, "its node did not come back")
		}
	}
	return next
}
