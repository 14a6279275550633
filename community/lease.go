package community

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"symbio/internal/actor/awake"
	"symbio/internal/actor/term"
	"symbio/internal/security/visible"
)

// When a node connects, its Network calls Attach, which returns a Lease,
// and passes what the node announces to the lease. When the connection ends, Lost or Goodbye retires
// the lease. After Goodbye the members leave at once. After Lost they stay listed as unavailable, so
// that a short break shows as one; forgetLost removes them when the node did not come back in time.
// Calls to a node whose lease is retired end with ErrUnavailable.

// maxNodes is how many other nodes a community knows. Each can need the memory that check.go allows.
const maxNodes = 1024

// maxPeerMembers is how many members are taken of one node: far more than a node
// has agents that others can see. maxCapabilities is how many capabilities are
// taken of one node, and offered by this one: a model cannot choose among more.
const maxPeerMembers, maxCapabilities = 1024, 256

// remoteNode is another node, from its first lease until its members were removed. All fields are guarded by
// roster.mu.
type remoteNode struct {
	lease        *Lease // the connection that counts; nil while there is none
	capabilities map[string]*remoteCapability
	members      map[MemberID]struct{}
	leftOut      map[MemberID]struct{} // members beyond maxPeerMembers
	cut          int                   // capabilities beyond maxCapabilities
	// forget is when the members leave; zero while they were confirmed by the lease.
	forget time.Time
}

// remoteNodes keeps the members of other nodes, checks what their nodes announce, and removes lost nodes.
type remoteNodes struct {
	cfg     *Config
	roster  *roster
	refused atomic.Uint64 // members and capabilities of peers
	expiry  chan struct{} // capacity 1: some node is to be forgotten sooner than nextCheck
	// nextCheck is when forgetLost looks next; zero: in an hour. guarded by roster.mu
	nextCheck time.Time
}

func newRemoteNodes(cfg *Config, r *roster) *remoteNodes {
	return &remoteNodes{cfg: cfg, roster: r, expiry: make(chan struct{}, 1)}
}

// Refused returns how many announced members and capabilities were refused, because they belong to another node or
// are beyond the limits.
func (c *Community) Refused() uint64 { return c.remote.refused.Load() }

// Lease is one connection's right to announce the members of a peer. It begins with Attach, and is retired by
// Lost, Goodbye, a newer Attach of the same node, or the end of Run. Announcements through a retired lease are
// ignored. The Network calls the methods in the order in which the peer sent them; they do not block.
//
// The announcements of a peer are checked (remote_member.go). Refused members are logged and counted; the others
// are taken.
type Lease struct {
	nodes *remoteNodes
	peer  Peer
	// valid ends when the lease is retired, with why as its cause.
	valid  context.Context
	retire context.CancelCauseFunc
	calls  term.Set // that go to the peer
	logged int      // refusals; guarded by roster.mu
	// overflowed: Config.OnLeftOut was called; guarded by roster.mu.
	overflowed bool
}

// errNewer retires a lease whose node has connected again.
var errNewer = errors.New("the node has connected anew")

// Attach begins the lease of a newly connected peer, and retires an earlier lease of that node: its members are
// unavailable until a Snapshot of the new lease confirms them. It never returns nil. The lease is retired from the
// start if the peer has this node's id, or there are too many nodes.
func (c *Community) Attach(p Peer) *Lease {
	l := &Lease{nodes: c.remote, peer: p}
	l.peer.Name = printable(p.Name)
	l.valid, l.retire = context.WithCancelCause(context.Background())
	context.AfterFunc(l.valid, func() { l.calls.End(ErrUnavailable) })
	c.roster.mu.Lock()
	defer c.roster.mu.Unlock()
	if err := c.remote.checkAttach(p); err != nil {
		l.retire(err)
		c.cfg.Logger.Error("peer refused", "node", printable(string(p.ID)), "name", l.peer.Name, "addr", p.Addr, "err", err)
		return l
	}
	n := c.roster.nodes[p.ID]
	if n == nil {
		n = &remoteNode{capabilities: map[string]*remoteCapability{}, members: map[MemberID]struct{}{}, leftOut: map[MemberID]struct{}{}}
		c.roster.nodes[p.ID] = n
	}
	if n.lease != nil {
		c.remote.suspend(n, errNewer)
	}
	n.lease = l
	c.remote.setForget(n, time.Now().Add(c.cfg.Forget))
	c.cfg.Logger.Info("peer attached", "node", p.ID, "name", l.peer.Name, "addr", p.Addr)
	return l
}

// checkAttach returns the reason why a peer may not have a lease. The caller must hold roster.mu.
func (ns *remoteNodes) checkAttach(p Peer) error {
	_, known := ns.roster.nodes[p.ID]
	switch {
	case ns.roster.closing:
		return ErrStopped
	case p.ID == ns.cfg.Node:
		return errors.New("it has this node's own id: is its directory a copy of this node's?")
	case !known && len(ns.roster.nodes) >= maxNodes:
		return fmt.Errorf("%w: %d nodes are known already", ErrBusy, len(ns.roster.nodes))
	}
	return checkID(string(p.ID))
}

// Valid returns a context that ends when the lease is retired, with the reason as its cause.
func (l *Lease) Valid() context.Context { return l.valid }

// Snapshot replaces all members of the peer: new members join, known ones are available again, and all others are
// removed.
func (l *Lease) Snapshot(all Catalog) {
	members := make([]checkedMember, len(all.Members))
	for i, m := range all.Members {
		members[i] = checkMember(m)
	}
	capabilities, faults := checkCapabilities(all.Capabilities)
	l.with(func(n *remoteNode) {
		ns := l.nodes
		ns.setForget(n, time.Time{})
		n.capabilities = updateCapabilities(n.capabilities, capabilities)
		for _, f := range faults {
			ns.refuse(l, f.Member, f.fault)
		}
		n.leftOut = map[MemberID]struct{}{}
		seen := make(map[MemberID]bool, len(members))
		for _, m := range members {
			if len(seen) >= maxPeerMembers && !seen[m.ID] && m.fault == nil {
				m.fault = errTooMany
			}
			if ns.addMember(l, n, m) {
				seen[m.ID] = true
			}
		}
		for _, id := range sortedIDs(n) {
			if !seen[id] {
				ns.removeMember(n, id, "its node does not name it any more")
			}
		}
	})
}

// Joined adds a member of the peer, or updates a known one.
func (l *Lease) Joined(m Member) { l.Updated(m) }

// Updated adds or updates a member of the peer.
func (l *Lease) Updated(m Member) {
	checked := checkMember(m)
	l.with(func(n *remoteNode) {
		if _, known := n.members[m.ID]; !known && len(n.members) >= maxPeerMembers && checked.fault == nil {
			checked.fault = errTooMany
		}
		l.nodes.addMember(l, n, checked)
	})
}

// Left removes a member of the peer.
func (l *Lease) Left(id MemberID) {
	l.with(func(n *remoteNode) {
		delete(n.leftOut, id)
		l.nodes.removeMember(n, id, "it left")
	})
}

// Lost retires the lease because the peer is silent or the connection broke. Its members are unavailable at once,
// and calls to it fail with ErrUnavailable. Unless it attaches again, the members are removed after Config.Forget.
func (l *Lease) Lost(err error) {
	l.with(func(n *remoteNode) {
		err = cmp.Or(err, errors.New("the connection ended"))
		l.nodes.suspend(n, err)
		l.nodes.setForget(n, time.Now().Add(l.nodes.cfg.Forget))
		l.nodes.cfg.Logger.Info("peer lost", "node", l.peer.ID, "name", l.peer.Name, "err", err)
	})
}

// Goodbye retires the lease because the peer stops on purpose. Its members are removed at once.
func (l *Lease) Goodbye(why string) {
	l.with(func(*remoteNode) {
		why = cmp.Or(printable(why), "its node said goodbye")
		l.nodes.cfg.Logger.Info("peer left", "node", l.peer.ID, "name", l.peer.Name, "reason", why)
		l.nodes.removeNode(l.peer.ID, why)
	})
}

// with runs f under the lock if the lease is not retired. Every announcement passes here, so that a late one of an
// old connection has no effect.
func (l *Lease) with(f func(*remoteNode)) {
	l.nodes.roster.mu.Lock()
	defer l.nodes.roster.mu.Unlock()
	n := l.nodes.roster.nodes[l.peer.ID]
	if n == nil || n.lease != l {
		return
	}
	f(n)
	if what := l.nodes.describeLeftOut(n); what != "" && !l.overflowed {
		l.overflowed = true
		l.nodes.cfg.OnLeftOut(l.peer, what)
	}
}

// suspend retires n's lease and makes its members unavailable. The caller must hold roster.mu.
func (ns *remoteNodes) suspend(n *remoteNode, why error) {
	n.lease.retire(why)
	n.lease = nil
	for _, id := range sortedIDs(n) {
		if m := ns.roster.remote[id]; m.Available {
			m.Available = false
			ns.roster.remote[id] = m
			ns.roster.publish(Change{Kind: BecameUnavailable, Member: m, Why: visible.Line(why.Error(), maxExplanation)}, false)
		}
	}
}

// removeMember removes one member of n. The caller must hold roster.mu.
func (ns *remoteNodes) removeMember(n *remoteNode, id MemberID, why string) {
	if _, ok := n.members[id]; !ok {
		return
	}
	m := ns.roster.remote[id]
	delete(n.members, id)
	delete(ns.roster.remote, id)
	m.Available = false
	ns.roster.publish(Change{Kind: Left, Member: m, Why: why}, false)
}

// removeNode removes a node and all its members. The caller must hold roster.mu.
func (ns *remoteNodes) removeNode(id NodeID, why string) {
	n := ns.roster.nodes[id]
	if n.lease != nil {
		n.lease.retire(errors.New(why))
		n.lease = nil
	}
	for _, m := range sortedIDs(n) {
		ns.removeMember(n, m, why)
	}
	delete(ns.roster.nodes, id)
}

// sortedIDs returns the ids of n's members in a fixed order.
func sortedIDs(n *remoteNode) []MemberID { return slices.Sorted(maps.Keys(n.members)) }

// setForget sets when the members of n are removed. It wakes forgetLost only if that is earlier than its next
// check, so that many nodes that come or go at once cause one check. The caller must hold roster.mu.
func (ns *remoteNodes) setForget(n *remoteNode, at time.Time) {
	n.forget = at
	if at.IsZero() || !ns.nextCheck.IsZero() && !at.Before(ns.nextCheck) {
		return
	}
	ns.nextCheck = at
	select {
	case ns.expiry <- struct{}{}:
	default:
	}
}

// forgetLost removes nodes whose time is over, until ctx ends. One timer serves all nodes. A time in which this process did
// not run does not count, as it could not have seen them come back.
func (ns *remoteNodes) forgetLost(ctx context.Context) error {
	for ctx.Err() == nil {
		wait := time.Hour
		if next := ns.forget(time.Now()); !next.IsZero() {
			wait = max(min(time.Until(next), ns.cfg.Forget/awake.Parts), 0)
		}
		ns.postpone(ns.cfg.Clock.Wait(ctx, wait, ns.expiry))
	}
	return nil
}

// postpone gives lost nodes as much more time as this process did not run: all of it anew if that was longer.
func (ns *remoteNodes) postpone(late time.Duration) {
	ns.roster.mu.Lock()
	defer ns.roster.mu.Unlock()
	for _, n := range ns.roster.nodes {
		switch {
		case n.forget.IsZero() || late == 0:
		case late > ns.cfg.Forget:
			n.forget = time.Now().Add(ns.cfg.Forget)
		default:
			n.forget = n.forget.Add(late)
		}
	}
}

// forget removes the nodes whose time has come, and returns the next such time, zero if there is none.
func (ns *remoteNodes) forget(now time.Time) (next time.Time) {
	ns.roster.mu.Lock()
	defer ns.roster.mu.Unlock()
	defer func() { ns.nextCheck = next }()
	for id, n := range ns.roster.nodes {
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
				ns.removeMember(n, m, "its node does not name it any more")
			}
		default:
			ns.removeNode(id, "its node did not come back")
		}
	}
	return next
}

// removeAll removes all other nodes when this one stops.
func (ns *remoteNodes) removeAll(why string) {
	ns.roster.mu.Lock()
	defer ns.roster.mu.Unlock()
	for id := range ns.roster.nodes {
		ns.removeNode(id, why)
	}
}
