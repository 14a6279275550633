package grpcpeer

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"symbio/community"
	"symbio/discovery"
	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// Limits of what others introduce.
const (
	introducedName = "introduced"
	// vouchTime is how long introductions outlive the link to who made them: a node that was killed, or
	// starts again, parts none of those that met by it.
	vouchTime = 10 * time.Minute
	// maxVouchers is how many introducers are remembered whose link has ended, or never began.
	maxVouchers = 1024
	// maxIntroducedAddrs is how many addresses one introduction has, and how many are dialled together.
	maxIntroducedAddrs, maxAddrsTogether = 4, 8
	// An introducer may say news of this many nodes at once, which is twice all of them, and of as many in a
	// second after that. The rest is not heard.
	introductionBurst, introductionPace = 2 * maxIntroductions, 4
)

// Introduced is a discovery.Source of the nodes that authenticated peers are linked with, and of the peers
// that have called this node. What it says is a hint like any other: a false one costs a failed dial.
//
// An introduction is taken back when nobody vouches for it any more: when who made it says so, or has been
// away for 10 minutes, or was removed from the cluster.
type Introduced struct {
	self community.NodeID
	wake chan struct{} // capacity 1: something is dirty

	mu       sync.Mutex
	vouchers map[community.NodeID]*voucher                              // guarded by mu; by introducer
	by       map[community.NodeID]map[community.NodeID][]netip.AddrPort // guarded by mu; node, introducer, addresses
	dirty    map[community.NodeID]bool                                  // guarded by mu; to be reported anew
}

// voucher is one introducer.
type voucher struct {
	until time.Time // zero = while it is linked
	pace  *rate.Limiter
	nodes map[community.NodeID]bool // that it introduced, itself apart
}

var _ discovery.Source = (*Introduced)(nil)

func newIntroduced(self community.NodeID) *Introduced {
	return &Introduced{
		self: self, wake: make(chan struct{}, 1), vouchers: map[community.NodeID]*voucher{},
		by: map[community.NodeID]map[community.NodeID][]netip.AddrPort{}, dirty: map[community.NodeID]bool{},
	}
}

// Name returns "introduced".
func (*Introduced) Name() string { return introducedName }

// Run reports whom others have introduced until ctx ends.
func (s *Introduced) Run(ctx context.Context, report func(discovery.Sighting)) error {
	s.mu.Lock()
	for id := range s.by {
		s.dirty[id] = true
	}
	s.mu.Unlock()
	said := map[community.NodeID][]netip.AddrPort{}
	expiry := time.NewTicker(time.Minute)
	defer expiry.Stop()
	for {
		for id, addrs := range s.changes() {
			if ctx.Err() != nil {
				return nil
			}
			if slices.Equal(said[id], addrs) {
				continue
			}
			report(discovery.Sighting{Source: introducedName, Key: string(id), Node: string(id), Addrs: addrs, Gone: len(addrs) == 0, Why: "introduced"})
			if said[id] = addrs; len(addrs) == 0 {
				delete(said, id)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case now := <-expiry.C:
			s.expire(now)
		}
	}
}

// changes returns the addresses of the nodes of which something was said, and forgets that.
func (s *Introduced) changes() map[community.NodeID][]netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[community.NodeID][]netip.AddrPort, len(s.dirty))
	for id := range s.dirty {
		out[id] = addrsOf(id, s.by[id])
	}
	clear(s.dirty)
	return out
}

// addrsOf is where to dial a node: first where it says itself, then what most say, so that one who says
// otherwise is the last to be believed.
func addrsOf(id community.NodeID, said map[community.NodeID][]netip.AddrPort) []netip.AddrPort {
	votes := map[netip.AddrPort]int{}
	var all []netip.AddrPort
	for who, addrs := range said {
		for _, a := range addrs {
			if votes[a]++; votes[a] == 1 {
				all = append(all, a)
			}
			if who == id {
				votes[a] += maxVouchers
			}
		}
	}
	slices.SortFunc(all, func(a, b netip.AddrPort) int { return cmp.Or(cmp.Compare(votes[b], votes[a]), a.Compare(b)) })
	return all[:min(len(all), maxAddrsTogether)]
}

// itself takes where a node that called says that it can be dialled.
func (s *Introduced) itself(id community.NodeID, addr netip.AddrPort, linked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.voucher(id)
	if v == nil || !v.pace.Allow() {
		return
	}
	if !linked {
		v.until = time.Now().Add(vouchTime)
	}
	s.say(id, id, []netip.AddrPort{addr})
	s.rouse()
}

// hear takes what the node of a link introduces. What cannot be an introduction is passed over.
func (s *Introduced) hear(l *link, said *pb.Introductions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := l.peer.ID
	v := s.voucher(from)
	if v == nil {
		return
	}
	at, _ := netip.ParseAddrPort(l.peer.Addr)
	near := at.Addr().Unmap().IsLoopback()
	fresh := map[community.NodeID]bool{}
	for _, i := range said.GetNodes()[:min(len(said.GetNodes()), maxIntroductions)] {
		id := community.NodeID(i.GetId())
		if _, err := identity.ParseNodeID(i.GetId()); err != nil || id == s.self || id == from {
			continue
		}
		addrs := diallable(i.GetAddrs(), near)
		known := v.nodes[id] && slices.Equal(s.by[id][from], addrs)
		switch {
		case len(addrs) == 0:
			continue
		case known:
		case !v.nodes[id] && len(v.nodes) >= maxIntroductions && !said.GetAll(), !v.pace.Allow():
			continue
		default:
			v.nodes[id] = true
			s.say(from, id, addrs)
		}
		fresh[id] = true
	}
	for _, id := range said.GetGone()[:min(len(said.GetGone()), maxIntroductions)] {
		s.unsay(v, from, community.NodeID(id))
	}
	if said.GetAll() {
		for id := range v.nodes {
			if !fresh[id] {
				s.unsay(v, from, id)
			}
		}
	}
	s.rouse()
}

// diallable are the addresses that it makes sense to dial on the word of a node elsewhere. One on this
// machine may speak of this machine.
func diallable(said []string, near bool) []netip.AddrPort {
	var out []netip.AddrPort
	for _, text := range said[:min(len(said), maxIntroducedAddrs)] {
		a, err := netip.ParseAddrPort(text)
		ip := a.Addr().Unmap()
		if err != nil || a.Port() == 0 || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast() || ip.IsLoopback() && !near ||
			ip.Zone() != "" || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
			continue
		}
		if a = netip.AddrPortFrom(ip, a.Port()); !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// voucher returns what is known of an introducer, nil when there are too many. The caller holds s.mu.
func (s *Introduced) voucher(id community.NodeID) *voucher {
	v := s.vouchers[id]
	if v == nil && len(s.vouchers) < maxVouchers {
		v = &voucher{until: time.Now().Add(vouchTime), pace: rate.NewLimiter(introductionPace, introductionBurst), nodes: map[community.NodeID]bool{}}
		s.vouchers[id] = v
	}
	return v
}

// say and unsay note and forget one introduction. The caller holds s.mu.
func (s *Introduced) say(from, id community.NodeID, addrs []netip.AddrPort) {
	if s.by[id] == nil {
		s.by[id] = map[community.NodeID][]netip.AddrPort{}
	}
	s.by[id][from] = addrs
	s.dirty[id] = true
}

func (s *Introduced) unsay(v *voucher, from, id community.NodeID) {
	if !v.nodes[id] && from != id {
		return
	}
	delete(v.nodes, id)
	if _, ok := s.by[id][from]; !ok {
		return
	}
	if delete(s.by[id], from); len(s.by[id]) == 0 {
		delete(s.by, id)
	}
	s.dirty[id] = true
}

// stays notes that a link to the node has begun.
func (s *Introduced) stays(id community.NodeID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.voucher(id); v != nil {
		v.until = time.Time{}
	}
}

// leaves notes that the link to the node has ended. The word of one that was removed counts no more.
func (s *Introduced) leaves(id community.NodeID, removed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.vouchers[id]
	switch {
	case v == nil:
	case removed:
		s.drop(id, v)
	default:
		v.until = time.Now().Add(vouchTime)
	}
}

// expire drops who has been away for too long.
func (s *Introduced) expire(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, v := range s.vouchers {
		if !v.until.IsZero() && now.After(v.until) {
			s.drop(id, v)
		}
	}
}

// drop forgets an introducer and all that it said. The caller holds s.mu.
func (s *Introduced) drop(id community.NodeID, v *voucher) {
	for node := range v.nodes {
		s.unsay(v, id, node)
	}
	s.unsay(v, id, id)
	delete(s.vouchers, id)
	s.rouse()
}

func (s *Introduced) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
