package grpcpeer

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"symbio/community"
)

// A link to a member by gossip is made when it is used, and closed when it is idle.

// connect returns the link to a node, and dials it first if there is none: once, until ctx ends.
func (m *membership) connect(ctx context.Context, id community.NodeID, addrs []netip.AddrPort) (*link, error) {
	done, l := m.dial(id, addrs)
	if l != nil {
		return l, nil
	}
	if done == nil {
		return nil, errNoAddress
	}
	select {
	case err := <-done:
		if err != nil {
			return nil, err
		}
	case <-m.life.search.Done():
		return nil, errStopping
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if l, ok := m.links.get(id); ok {
		return l, nil
	}
	return nil, errConnUsed
}

// dial makes the candidate of a node dial it, and returns the link that there is, or where the outcome comes; neither if there
// is no address.
func (m *membership) dial(id community.NodeID, addrs []netip.AddrPort) (<-chan error, *link) {
	c := m.candidates
	c.mu.Lock()
	defer c.mu.Unlock()
	if l, ok := m.links.get(id); ok && !l.closed.Load() {
		return nil, l
	}
	k := c.wanted(id, addrs)
	if k == nil {
		return nil, nil
	}
	done := make(chan error, 1)
	k.demand.waiting = append(k.demand.waiting, done)
	return done, nil
}

// link returns a link to a member by gossip, which it makes if there is none. It returns community.ErrUnavailable if the node
// is no such member or does not answer, and otherwise ctx's error.
func (m *membership) link(ctx context.Context, id community.NodeID) (*link, error) {
	if l, ok := m.links.get(id); ok && !l.closed.Load() {
		return l, nil
	}
	if !m.mayConnect(id) {
		return nil, community.ErrUnavailable
	}
	connecting, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	l, err := m.connect(connecting, id, m.addrs(id))
	switch {
	case err == nil:
		return l, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	m.cfg.Logger.Debug("no connection to a member", "node", id, "err", err)
	return nil, community.ErrUnavailable
}

// mayConnect reports whether the node is a member whose link is closed, or is being closed, because it was idle.
func (m *membership) mayConnect(id community.NodeID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := m.byNode[id]
	return one != nil && one.lease != nil && (one.link == nil || one.link.reason.idle.Load())
}

// closeIdle closes links that were not used for idleChecks looks, as far as their nodes stay members by gossip, until ctx
// ends. Between two looks it dials one node at the most that was not reached before, so that a crowd has its peace.
func (m *membership) closeIdle(ctx context.Context) {
	looks := time.NewTicker(idleCheck)
	defer looks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-looks.C:
		}
		large := m.isLarge()
		var again *link
		for l := range m.links.all() {
			looks := l.countIdle()
			if looks < idleChecks || !large || !m.outlives(l) {
				continue
			}
			if l.at.addr.IsValid() {
				l.closeIdle()
			} else if l.at == (endpoint{}) && looks >= max(2*idleChecks, 2*l.use.tried) {
				again = l
			}
		}
		if again != nil {
			again.use.tried = again.use.looks
			m.tryDial(again)
		}
	}
}

// outlives reports whether the node of a link stays a member when the link is closed: gossip says that the same process is
// alive, and that node, as far as this one dialed it, needs no reversed connection.
func (m *membership) outlives(l *link) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := m.byNode[l.peer.ID]
	return one != nil && one.link == l && one.alive && one.node != nil && strings.HasPrefix(l.about.instance, one.node.Statement.GetInstance()) &&
		!l.use.offered.Load()
}

// tryDial closes an idle link over a reversed connection if its node can be dialed after all. Where many nodes start at once,
// some answer too late, and are taken for nodes that only dial out.
func (m *membership) tryDial(l *link) {
	for _, at := range m.addrs(l.peer.ID) {
		var took time.Duration
		shown, err := m.candidates.dialer.dialOne(endpoint{addr: at}, l.peer.ID, &took)
		if err != nil {
			continue
		}
		shown.close()
		if m.outlives(l) {
			l.closeIdle()
		}
		return
	}
}
