// Package introduced is the discovery source of the nodes that other nodes introduce, and of the nodes that have
// called this one. Its sightings are hints like any other: a false one costs a failed dial.
package introduced

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

// Name is the name of this source in sightings.
const Name = "introduced"

// MaxNodes is how many nodes one node introduces at most. In a larger cluster each node introduces
// its neighbors by id (links), so that every node is still introduced by several.
const MaxNodes = 256

const (
	// lifetime is how long introductions outlive the link to their introducer: a node that was killed, or starts
	// again, does not part the nodes that met by it.
	lifetime = 10 * time.Minute
	// maxIntroducers is how many introducers are remembered whose link has ended, or never began.
	maxIntroducers = 1024
	// maxAddrs is how many addresses one introduction has, and maxAddrsTogether how many of a node are dialed.
	maxAddrs, maxAddrsTogether = 4, 8
	// An introducer may change this many introductions at once, which is twice all of them, and so many in a
	// second after that. Further ones are ignored.
	changeBurst, changeRate = 2 * MaxNodes, 4
)

// Source is a discovery.Source of nodes that other nodes introduced and of nodes that called this
// one.
//
// An introduction ends when every introducer has withdrawn it, has been disconnected for lifetime,
// or was removed from the cluster. All tables are bounded: introducers by maxIntroducers, and each
// one's nodes, addresses and rate of changes. It is safe for concurrent use.
type Source struct {
	self community.NodeID
	wake chan struct{} // capacity 1: dirty has nodes

	mu          sync.Mutex
	introducers map[community.NodeID]*introducer                           // guarded by mu
	by          map[community.NodeID]map[community.NodeID][]netip.AddrPort // guarded by mu; node, introducer, addresses
	dirty       map[community.NodeID]bool                                  // guarded by mu; nodes to be reported anew
}

// introducer is a node that introduced others, or itself by calling this node.
type introducer struct {
	until time.Time // zero = while it is linked
	rate  *rate.Limiter
	nodes map[community.NodeID]bool // that it introduced, itself apart
}

var _ discovery.Source = (*Source)(nil)

// New returns an empty Source of the node called self.
func New(self community.NodeID) *Source {
	return &Source{
		self: self, wake: make(chan struct{}, 1), introducers: map[community.NodeID]*introducer{},
		by: map[community.NodeID]map[community.NodeID][]netip.AddrPort{}, dirty: map[community.NodeID]bool{},
	}
}

// Name returns "introduced".
func (*Source) Name() string { return Name }

// Run reports the introduced nodes, and their changes, until ctx ends. It may run again after it
// has returned; it then reports all nodes anew.
func (s *Source) Run(ctx context.Context, report func(discovery.Sighting)) error {
	s.mu.Lock()
	for id := range s.by {
		s.dirty[id] = true
	}
	s.mu.Unlock()
	reported := map[community.NodeID][]netip.AddrPort{}
	expiry := time.NewTicker(time.Minute)
	defer expiry.Stop()
	for {
		for id, addrs := range s.changes() {
			if ctx.Err() != nil {
				return nil
			}
			if slices.Equal(reported[id], addrs) {
				continue
			}
			report(discovery.Sighting{Source: Name, Key: string(id), Node: string(id), Addrs: addrs, Gone: len(addrs) == 0, Why: "introduced"})
			if reported[id] = addrs; len(addrs) == 0 {
				delete(reported, id)
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

// changes returns the addresses of the nodes that changed since the last call; an empty list means
// that the node is gone.
func (s *Source) changes() map[community.NodeID][]netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[community.NodeID][]netip.AddrPort, len(s.dirty))
	for id := range s.dirty {
		out[id] = addrsOf(id, s.by[id])
	}
	clear(s.dirty)
	return out
}

// addrsOf returns the addresses to dial a node at: those that the node itself gave first, then by
// the number of introducers that name them, so that the address of a single lying node comes last.
// The rest of the order is fixed, so that equal inputs give equal results.
func addrsOf(id community.NodeID, byIntroducer map[community.NodeID][]netip.AddrPort) []netip.AddrPort {
	votes := map[netip.AddrPort]int{}
	var all []netip.AddrPort
	for from, addrs := range byIntroducer {
		for _, a := range addrs {
			if votes[a]++; votes[a] == 1 {
				all = append(all, a)
			}
			if from == id {
				votes[a] += maxIntroducers
			}
		}
	}
	slices.SortFunc(all, func(a, b netip.AddrPort) int { return cmp.Or(cmp.Compare(votes[b], votes[a]), a.Compare(b)) })
	return all[:min(len(all), maxAddrsTogether)]
}

// AddSelf records an address at which node id says it listens. The hint ends lifetime after the
// node's connection did; linked tells that there is one now. Changes beyond the rate limit of the
// node are ignored.
func (s *Source) AddSelf(id community.NodeID, addr netip.AddrPort, linked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.introducer(id)
	if v == nil || !v.rate.Allow() {
		return
	}
	if !linked {
		v.until = time.Now().Add(lifetime)
	}
	s.add(id, id, []netip.AddrPort{addr})
	s.notify()
}

// Add records the introductions that a linked node, connected at addr, sent. Invalid entries are
// skipped, and those over a limit ignored; neither is an error, because introductions are only
// hints.
func (s *Source) Add(from community.NodeID, addr string, in *pb.Introductions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.introducer(from)
	if v == nil {
		return
	}
	at, _ := netip.ParseAddrPort(addr)
	local := at.Addr().Unmap().IsLoopback()
	fresh := map[community.NodeID]bool{}
	for _, i := range in.GetNodes()[:min(len(in.GetNodes()), MaxNodes)] {
		id := community.NodeID(i.GetId())
		if _, err := identity.ParseNodeID(i.GetId()); err != nil || id == s.self || id == from {
			continue
		}
		addrs := diallable(i.GetAddrs(), local)
		known := v.nodes[id] && slices.Equal(s.by[id][from], addrs)
		switch {
		case len(addrs) == 0:
			continue
		case known:
		case !v.nodes[id] && len(v.nodes) >= MaxNodes && !in.GetAll(), !v.rate.Allow():
			continue
		default:
			v.nodes[id] = true
			s.add(from, id, addrs)
		}
		fresh[id] = true
	}
	for _, id := range in.GetGone()[:min(len(in.GetGone()), MaxNodes)] {
		s.remove(v, from, community.NodeID(id))
	}
	if in.GetAll() {
		for id := range v.nodes {
			if !fresh[id] {
				s.remove(v, from, id)
			}
		}
	}
	s.notify()
}

// diallable returns the addresses that are worth dialing on the word of another node. Loopback addresses count
// only from a node of this machine (local).
func diallable(in []string, local bool) []netip.AddrPort {
	var out []netip.AddrPort
	for _, text := range in[:min(len(in), maxAddrs)] {
		a, err := netip.ParseAddrPort(text)
		ip := a.Addr().Unmap()
		if err != nil || a.Port() == 0 || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast() || ip.IsLoopback() && !local ||
			ip.Zone() != "" || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
			continue
		}
		if a = netip.AddrPortFrom(ip, a.Port()); !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// introducer returns the record of node id and makes one if there is room; nil at maxIntroducers.
// The caller holds s.mu.
func (s *Source) introducer(id community.NodeID) *introducer {
	v := s.introducers[id]
	if v == nil && len(s.introducers) < maxIntroducers {
		v = &introducer{until: time.Now().Add(lifetime), rate: rate.NewLimiter(changeRate, changeBurst), nodes: map[community.NodeID]bool{}}
		s.introducers[id] = v
	}
	return v
}

// add records one introduction and marks the node for Run. The caller holds s.mu.
func (s *Source) add(from, id community.NodeID, addrs []netip.AddrPort) {
	if s.by[id] == nil {
		s.by[id] = map[community.NodeID][]netip.AddrPort{}
	}
	s.by[id][from] = addrs
	s.dirty[id] = true
}

// remove deletes one introduction, if from made it, and marks the node for Run. The caller holds
// s.mu.
func (s *Source) remove(v *introducer, from, id community.NodeID) {
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

// Connected keeps the introductions of node id for as long as it is linked.
func (s *Source) Connected(id community.NodeID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.introducer(id); v != nil {
		v.until = time.Time{}
	}
}

// Disconnected starts the lifetime of the introductions of node id. If the node was removed from
// the cluster, they end at once.
func (s *Source) Disconnected(id community.NodeID, removed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.introducers[id]
	switch {
	case v == nil:
	case removed:
		s.drop(id, v)
	default:
		v.until = time.Now().Add(lifetime)
	}
}

// expire drops the introducers that have been away for too long.
func (s *Source) expire(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, v := range s.introducers {
		if !v.until.IsZero() && now.After(v.until) {
			s.drop(id, v)
		}
	}
}

// drop forgets an introducer and its introductions. The caller holds s.mu.
func (s *Source) drop(id community.NodeID, v *introducer) {
	for node := range v.nodes {
		s.remove(v, id, node)
	}
	s.remove(v, id, id)
	delete(s.introducers, id)
	s.notify()
}

// notify wakes Run. The channel holds one token, which covers any number of changes.
func (s *Source) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
