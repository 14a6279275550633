package community

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"symbio/actor/term"
	"symbio/security/visible"
)

// maxNodes is how many other nodes a community knows; each may take the memory of check.go.
const maxNodes = 1024

// remoteNode is another node, from its first lease until its members have left. All is guarded by
// roster.mu.
type remoteNode struct {
	lease        *Lease // the connection that counts; nil while there is none
	capabilities map[string]*remoteCapability
	members      map[MemberID]struct{}
	leftOut      map[MemberID]struct{} // members beyond Config.MaxPeerMembers
	cut          int                   // capabilities beyond Config.MaxCapabilities
	// forget is when the members leave; zero while they were confirmed by the lease.
	forget time.Time
}

// remoteNodes holds the roster's other nodes to what they may announce, and forgets those that are lost.
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

// Refused returns how many members and capabilities that peers announced were not taken in, because
// they were not theirs to announce, or beyond the limits.
func (ns *remoteNodes) Refused() uint64 { return ns.refused.Load() }

// Lease is one connection's right to say who lives on a peer. It begins with Attach, and is retired
// by Lost, Goodbye, a newer Attach of the same node, or the end of Run; then everything said
// through it is ignored. The Network calls the methods in the order of what the peer said; they do
// not block.
//
// What a peer announces is checked (admit.go): what is refused is logged and counted, the rest goes
// on.
type Lease struct {
	nodes *remoteNodes
	peer  Peer
	// valid ends when the lease is retired, with why as its cause.
	valid  context.Context
	retire context.CancelCauseFunc
	calls  term.Set // that go to the peer
	logged int      // refusals; guarded by roster.mu
	// overflowed: Config.LeftOut was told; guarded by roster.mu.
	overflowed bool
}

// errNewer retires a lease whose node has connected anew.
var errNewer = errors.New("the node has connected anew")

// Attach begins the lease of a newly connected peer, and retires any earlier one of that node: its
// members are unavailable until the Snapshot of the new one confirms them. It never returns nil.
// The lease is retired from the start when the peer has our own id, or there are too many.
func (ns *remoteNodes) Attach(p Peer) *Lease {
	l := &Lease{nodes: ns, peer: p}
	l.peer.Name = printable(p.Name)
	l.valid, l.retire = context.WithCancelCause(context.Background())
	context.AfterFunc(l.valid, func() { l.calls.End(ErrUnavailable) })
	ns.roster.mu.Lock()
	defer ns.roster.mu.Unlock()
	if err := ns.mayAttach(p); err != nil {
		l.retire(err)
		ns.cfg.Logger.Error("peer refused", "node", printable(string(p.ID)), "name", l.peer.Name, "addr", p.Addr, "err", err)
		return l
	}
	n := ns.roster.nodes[p.ID]
	if n == nil {
		n = &remoteNode{capabilities: map[string]*remoteCapability{}, members: map[MemberID]struct{}{}, leftOut: map[MemberID]struct{}{}}
		ns.roster.nodes[p.ID] = n
	}
	if n.lease != nil {
		ns.suspend(n, errNewer)
	}
	n.lease = l
	ns.setForget(n, time.Now().Add(ns.cfg.Forget))
	ns.cfg.Logger.Info("peer attached", "node", p.ID, "name", l.peer.Name, "addr", p.Addr)
	return l
}

// mayAttach tells whether a peer may have a lease at all.
func (ns *remoteNodes) mayAttach(p Peer) error {
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

// Snapshot is all that lives on the peer: new members joined, known ones are available again, all
// others have left.
func (l *Lease) Snapshot(all Catalog) {
	members := make([]announced, len(all.Members))
	for i, m := range all.Members {
		members[i] = checkMember(m, l.nodes.cfg.MaxCapabilities)
	}
	capabilities, faults := checkCapabilities(all.Capabilities, l.nodes.cfg.MaxCapabilities)
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
			if len(seen) >= ns.cfg.MaxPeerMembers && !seen[m.ID] && m.fault == nil {
				m.fault = errTooMany
			}
			if ns.admit(l, n, m) {
				seen[m.ID] = true
			}
		}
		for _, id := range sortedIDs(n) {
			if !seen[id] {
				ns.leave(n, id, "its node does not name it any more")
			}
		}
	})
}

// Joined is a new member of the peer, or a known one that has changed.
func (l *Lease) Joined(m Member) { l.Updated(m) }

// Updated is a member of the peer as it is now.
func (l *Lease) Updated(m Member) {
	checked := checkMember(m, l.nodes.cfg.MaxCapabilities)
	l.with(func(n *remoteNode) {
		if _, known := n.members[m.ID]; !known && len(n.members) >= l.nodes.cfg.MaxPeerMembers && checked.fault == nil {
			checked.fault = errTooMany
		}
		l.nodes.admit(l, n, checked)
	})
}

// Left is a member of the peer that is gone.
func (l *Lease) Left(id MemberID) {
	l.with(func(n *remoteNode) {
		delete(n.leftOut, id)
		l.nodes.leave(n, id, "it left")
	})
}

// Lost retires the lease because the peer is silent or the connection broke: its members are
// unavailable at once, calls to it under way fail with ErrUnavailable, and unless it attaches anew
// the members are left after Config.Forget.
func (l *Lease) Lost(err error) {
	l.with(func(n *remoteNode) {
		if err == nil {
			err = errors.New("the connection ended")
		}
		l.nodes.suspend(n, err)
		l.nodes.setForget(n, time.Now().Add(l.nodes.cfg.Forget))
		l.nodes.cfg.Logger.Info("peer lost", "node", l.peer.ID, "name", l.peer.Name, "err", err)
	})
}

// Goodbye retires the lease because the peer stops on purpose: its members are left at once.
func (l *Lease) Goodbye(why string) {
	l.with(func(*remoteNode) {
		why = printable(why)
		if why == "" {
			why = "its node said goodbye"
		}
		l.nodes.cfg.Logger.Info("peer left", "node", l.peer.ID, "name", l.peer.Name, "reason", why)
		l.nodes.drop(l.peer.ID, why)
	})
}

// with runs f under the lock while the lease counts. This is the one place that keeps what a retired
// connection says, however late, from becoming true.
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
		l.nodes.cfg.LeftOut(l.peer, what)
	}
}

// suspend retires n's lease and makes its members unavailable. It needs roster.mu.
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

// leave forgets one member of n. It needs roster.mu.
func (ns *remoteNodes) leave(n *remoteNode, id MemberID, why string) {
	if _, ok := n.members[id]; !ok {
		return
	}
	m := ns.roster.remote[id]
	delete(n.members, id)
	delete(ns.roster.remote, id)
	m.Available = false
	ns.roster.publish(Change{Kind: Left, Member: m, Why: why}, false)
}

// drop forgets a node and all its members. It needs roster.mu.
func (ns *remoteNodes) drop(id NodeID, why string) {
	n := ns.roster.nodes[id]
	if n.lease != nil {
		n.lease.retire(errors.New(why))
		n.lease = nil
	}
	for _, m := range sortedIDs(n) {
		ns.leave(n, m, why)
	}
	delete(ns.roster.nodes, id)
}

// sortedIDs are n's members in an order that does not depend on the map.
func sortedIDs(n *remoteNode) []MemberID { return slices.Sorted(maps.Keys(n.members)) }

// setForget needs roster.mu. Of many nodes that come or go at a time, only the first wakes forgetLost, which
// looks at them all.
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

// forgetLost drops nodes whose time is over, until ctx ends. One timer serves them all.
func (ns *remoteNodes) forgetLost(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait := time.Hour
		if next := ns.forget(time.Now()); !next.IsZero() {
			wait = time.Until(next)
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return nil
		case <-ns.expiry:
		case <-timer.C:
		}
	}
}

// forget drops the nodes whose time has come, and returns when the next one's does; zero: never.
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
				ns.leave(n, m, "its node does not name it any more")
			}
		default:
			ns.drop(id, "its node did not come back")
		}
	}
	return next
}

// dropAll forgets all other nodes.
func (ns *remoteNodes) dropAll(why string) {
	ns.roster.mu.Lock()
	defer ns.roster.mu.Unlock()
	for id := range ns.roster.nodes {
		ns.drop(id, why)
	}
}
