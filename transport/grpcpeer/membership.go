package grpcpeer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
	"symbio/transport/grpcpeer/internal/gossip"
)

// A node is a member of the community by a link, or without one: by gossip (package gossip). In a small cluster each node
// keeps a link to each other one. In a larger one a link is made when it is used, and closed when it is idle.

const (
	// smallCluster is up to how many other nodes this one keeps links to all.
	smallCluster = 8
	// idleCheck is how often links are looked at, and idleChecks after how many looks without a call one is closed.
	idleCheck  = 5 * time.Second
	idleChecks = 6
	// instanceSize is how many letters of a process's name gossip uses: marks are sent often.
	instanceSize = 8
	// doubtTime is how long a node has to answer that gossip calls dead.
	doubtTime = connectTimeout
)

// membership has the members that gossip knows, and the lease of each node, by link or by gossip. It is safe for concurrent
// use.
type membership struct {
	*local
	candidates *candidates
	gossip     *gossip.Group // nil: this node takes no part, and has links only
	first      *firstDials
	host       community.Host

	mu     sync.Mutex
	byNode map[community.NodeID]*member // guarded by mu
	checks sync.WaitGroup
}

// member is another node. Its fields are guarded by membership.mu.
type member struct {
	node  *gossip.Node // its newest record; nil = known by its link only
	alive bool         // as gossip says
	// doubted says that the node was lost. Gossip alone does not bring it back: another node may repeat old marks of it.
	doubted bool
	lease   *community.Lease // nil = none now
	link    *link            // to which the lease belongs; nil = the lease is by gossip
	since   time.Time        // of the lease
}

var errNoMember = errors.New("gossip does not know the node")

func newMembership(n *local, c *candidates) *membership {
	m := &membership{local: n, candidates: c, byNode: map[community.NodeID]*member{}}
	m.first = newFirstDials(m)
	return m
}

// of returns the member with that id, a new one if there was none. The caller holds m.mu.
func (m *membership) of(id community.NodeID) *member {
	one := m.byNode[id]
	if one == nil {
		one = &member{}
		m.byNode[id] = one
	}
	return one
}

// Seen takes a record that gossip has brought (gossip.Config.Seen).
func (m *membership) Seen(node *gossip.Node) {
	m.candidates.dialer.renewal.takeStanding(node.ID, node.Statement.GetStanding())
	m.mu.Lock()
	one := m.of(node.ID)
	one.node, one.alive = node, true
	if one.link != nil {
		m.mu.Unlock()
		return
	}
	if one.doubted {
		m.mu.Unlock()
		m.dial(node.ID, node.Addrs)
		return
	}
	began := one.lease == nil || one.lease.Valid().Err() != nil
	if began {
		one.lease, one.since = m.host.Attach(peerBy(node)), time.Now()
	}
	lease := one.lease
	m.mu.Unlock()
	lease.Snapshot(catalogFrom(node.Statement.GetCatalog()))
	if began {
		m.records.add(Event{Kind: Connected, Node: node.ID, Name: clean(node.Statement.GetName()), Addr: addrBy(node)})
	}
}

// peerBy returns the node of a record as the community sees it.
func peerBy(n *gossip.Node) community.Peer {
	size := int(min(n.Statement.GetMaxMessage(), 1<<30))
	return community.Peer{ID: n.ID, Name: clean(n.Statement.GetName()), Authority: n.Authority, Role: n.Role, Labels: n.Labels, Addr: addrBy(n), MaxMessage: size}
}

func addrBy(n *gossip.Node) string {
	if len(n.Addrs) == 0 {
		return ""
	}
	return n.Addrs[0].String()
}

// Gone takes gossip's verdict that a node is no member any more (gossip.Config.Gone). One that did not say so itself is
// dialed before it is believed: gossip does not end the membership of a node that answers.
func (m *membership) Gone(id community.NodeID, left bool, why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := m.byNode[id]
	if one == nil {
		return
	}
	if one.alive = false; one.link != nil || one.lease == nil {
		return
	}
	if left {
		m.end(id, one, true, why)
		return
	}
	m.checks.Go(func() { m.doubt(id, one, why) })
}

// doubt dials a node that gossip calls dead, and ends its membership if it does not answer.
func (m *membership) doubt(id community.NodeID, one *member, why error) {
	ctx, cancel := context.WithTimeout(m.life.search, doubtTime)
	defer cancel()
	_, err := m.connect(ctx, id, m.addrs(id))
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil || one.alive || one.link != nil || one.lease == nil || m.life.search.Err() != nil {
		return
	}
	m.end(id, one, false, fmt.Errorf("%w, and it does not answer: %w", why, err))
}

// end ends a membership by gossip. The caller holds m.mu.
func (m *membership) end(id community.NodeID, one *member, left bool, why error) {
	e := Event{Kind: Lost, Node: id, Name: clean(one.node.Statement.GetName()), Addr: addrBy(one.node), Why: why.Error()}
	state := StateUnavailable
	if left {
		e.Kind, state = Left, StateLeft
		one.lease.Goodbye(why.Error())
	} else {
		one.lease.Lost(why)
	}
	one.lease, one.doubted = nil, true
	m.records.store(NodeStatus{ID: id, Name: e.Name, State: state, Addr: e.Addr, Why: e.Why, Since: time.Now()})
	m.records.add(e)
}

// attach returns the lease for a new link: the one that the node has by gossip, or a new one.
func (m *membership) attach(l *link) *community.Lease {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := m.of(l.peer.ID)
	one.doubted = false
	if one.lease == nil || one.lease.Valid().Err() != nil {
		one.lease, one.since = m.host.Attach(l.peer), time.Now()
	}
	one.link = l
	return one.lease
}

// detach is called when a link has ended. If it was idle, its node stays a member by gossip.
func (m *membership) detach(l *link) {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := m.byNode[l.peer.ID]
	if one == nil || one.link != l {
		return
	}
	one.link = nil
	switch {
	case !l.reason.idle.Load():
		one.lease = nil
		one.doubted = true
	case one.alive && one.lease != nil:
		one.lease.Snapshot(catalogFrom(one.node.Statement.GetCatalog()))
	case one.lease != nil: // it was called dead just now
		m.checks.Go(func() { m.doubt(l.peer.ID, one, errNoMember) })
	}
	if one.node == nil && one.lease == nil {
		delete(m.byNode, l.peer.ID)
	}
}

// covers reports whether the node is a member without a link.
func (m *membership) covers(id community.NodeID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := m.byNode[id]
	return one != nil && one.link == nil && one.lease != nil && one.alive
}

// addrs returns where the node says that it listens.
func (m *membership) addrs(id community.NodeID) []netip.AddrPort {
	m.mu.Lock()
	defer m.mu.Unlock()
	if one := m.byNode[id]; one != nil && one.node != nil {
		return one.node.Addrs
	}
	return nil
}

// isLarge reports whether there are too many nodes to keep a link to each.
func (m *membership) isLarge() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, one := range m.byNode {
		if one.lease != nil {
			n++
		}
	}
	return n > smallCluster
}

// holders returns the members without a link that say that they hold the cluster's authority.
func (m *membership) holders() (ids []community.NodeID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, one := range m.byNode {
		if one.link == nil && one.lease != nil && one.node.Statement.GetHoldsAuthority() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// list returns the status of the members by gossip, and adds them to listed.
func (m *membership) list(listed map[community.NodeID]bool) (out []NodeStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, one := range m.byNode {
		if one.link != nil || one.lease == nil || listed[id] {
			continue
		}
		listed[id] = true
		s := one.node.Statement
		out = append(out, NodeStatus{
			ID: id, Name: clean(s.GetName()), State: StateConnected, Via: ViaGossip, Addr: addrBy(one.node), Members: len(s.GetCatalog().GetMembers()),
			Protocol: version{s.GetProtocol().GetMajor(), s.GetProtocol().GetMinor()}.String(), CertDaysLeft: daysUntil(one.node.NotAfter),
			Authority: s.GetHoldsAuthority(), Since: one.since,
		})
	}
	return out
}

// startGossip makes this node's part in gossip, if it has packets. It runs until ctx ends.
func (m *membership) startGossip(host community.Host) error {
	m.host = host
	at, tcp := m.listener.Addr().(*net.TCPAddr)
	packets := m.cfg.Packets
	if packets == nil && (!tcp || m.cfg.Listener != nil) {
		return nil
	}
	var err error
	if packets == nil {
		if packets, err = net.ListenPacket("udp", at.String()); err != nil {
			return err
		}
	}
	changed := make(chan struct{}, 1)
	mark := m.run.Mark()
	m.gossip, err = gossip.New(gossip.Config{
		Identity: m.cfg.Identity, Instance: mark.GetInstance()[:instanceSize], Started: mark.GetStarted().AsTime(), Packets: packets, Port: uint16(at.Port),
		Dial: m.cfg.Dial, Describe: m.describe, Changed: changed, Seen: m.Seen, Gone: m.Gone,
		Revocations: m.candidates.dialer.renewal.addRevocations, Logger: m.cfg.Logger,
	})
	if err != nil {
		return err
	}
	sub := host.SubscribeLocal()
	m.checks.Go(func() {
		defer sub.Close()
		for {
			if _, err := sub.Next(m.life.search); err != nil {
				return
			}
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	})
	m.checks.Go(func() { m.closeIdle(m.life.search) })
	m.checks.Go(func() { _ = m.gossip.Run(m.life.search) })
	return nil
}

// describe returns what this node says of itself by gossip.
func (m *membership) describe() *pb.Statement {
	return &pb.Statement{Name: m.cfg.Name, Protocol: protocol.toWire(), Catalog: catalogTo(m.host.Catalog()),
		MaxMessage: uint64(m.cfg.Limits.Message), HoldsAuthority: m.cfg.Identity.Cluster() != nil, Standing: m.cfg.Identity.Rotation().Standing()}
}

// meet tells gossip of a node that has dialed this one, and says that it can be dialed at addr.
func (m *membership) meet(id community.NodeID, addr netip.AddrPort) {
	if m.gossip == nil || m.life.search.Err() != nil {
		return
	}
	m.checks.Go(func() {
		if err := m.gossip.Meet(id, addr); err != nil {
			m.cfg.Logger.Debug("gossip not begun", "node", id, "addr", addr, "err", err)
		}
	})
}

// accept serves a stream of gossip, whose handshake has proven who opened it.
func (m *membership) accept(conn net.Conn, peer identity.Peer) error {
	if m.gossip == nil {
		return errors.New("this node takes no part in gossip")
	}
	m.checks.Go(func() {
		if err := m.gossip.Accept(conn, peer); err != nil {
			m.cfg.Logger.Debug("stream of gossip not served", "node", peer.ID, "err", err)
		}
	})
	return nil
}
