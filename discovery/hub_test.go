package discovery_test

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"symbio/discovery"
	"symbio/internal/discovery/discoverytest"
)

// memoryHub is a network in memory whose sources see each other at once. The zero value is an empty one.
//
// It starts no goroutines of its own and keeps no time; it works inside and outside a synctest bubble. Its methods may
// be called concurrently. Sources report events in the order in which they happened.
type memoryHub struct {
	mu          sync.Mutex
	nodes       map[string]discovery.Sighting // guarded by mu; by key
	running     map[*hubSource]bool           // guarded by mu
	reconfirmed []string                      // guarded by mu; the keys of Reconfirm, in order
	silent      map[string]bool               // guarded by mu
}

// Appear lets every source of the hub see s, from now on. Source and Gone need not be set; Key defaults to Node.
func (h *memoryHub) Appear(s discovery.Sighting) {
	s.Source, s.Gone = hubName, false
	if s.Key == "" {
		s.Key = s.Node
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.nodes == nil {
		h.nodes = map[string]discovery.Sighting{}
	}
	h.nodes[s.Key] = s
	delete(h.silent, s.Key)
	h.publish(s)
}

// Vanish removes the node that appeared under key, as a goodbye does.
func (h *memoryHub) Vanish(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.vanish(key, "goodbye")
}

// Silence makes the node that appeared under key vanish at the next Reconfirm, as a killed process does.
func (h *memoryHub) Silence(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.silent == nil {
		h.silent = map[string]bool{}
	}
	h.silent[key] = true
}

// Reconfirmed returns the keys that Reconfirm was called with, in order.
func (h *memoryHub) Reconfirmed() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.reconfirmed...)
}

// Source returns a source that reports all other nodes of the hub. While it runs the others report self, unless self
// is zero.
func (h *memoryHub) Source(self discovery.Sighting) *hubSource {
	if self.Key == "" {
		self.Key = self.Node
	}
	return &hubSource{hub: h, self: self, wake: make(chan struct{}, 1)}
}

func (h *memoryHub) vanish(key, why string) {
	s, ok := h.nodes[key]
	if !ok {
		return
	}
	delete(h.nodes, key)
	s.Gone, s.Addrs, s.Why = true, nil, why
	h.publish(s)
}

func (h *memoryHub) publish(s discovery.Sighting) {
	for e := range h.running {
		e.add(s)
	}
}

const hubName = "memory"

// hubSource is one node's view of a memoryHub.
type hubSource struct {
	hub   *memoryHub
	self  discovery.Sighting
	wake  chan struct{}
	queue []discovery.Sighting // guarded by hub.mu
}

var (
	_ discovery.Source      = (*hubSource)(nil)
	_ discovery.Reconfirmer = (*hubSource)(nil)
)

// Name returns "memory".
func (*hubSource) Name() string { return hubName }

// Reconfirm removes the node of key if it was silenced.
func (s *hubSource) Reconfirm(key string) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.reconfirmed = append(s.hub.reconfirmed, key)
	if s.hub.silent[key] {
		s.hub.vanish(key, "no answer")
	}
}

// Run reports the others until ctx ends.
func (s *hubSource) Run(ctx context.Context, report func(discovery.Sighting)) error {
	s.open()
	defer s.close()
	for {
		for _, n := range s.drain() {
			if ctx.Err() != nil {
				return nil
			}
			report(n)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		}
	}
}

func (s *hubSource) open() {
	h := s.hub
	if s.self.Key != "" {
		h.Appear(s.self)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.running == nil {
		h.running = map[*hubSource]bool{}
	}
	h.running[s] = true
	s.queue = nil
	for _, key := range slices.Sorted(maps.Keys(h.nodes)) {
		s.add(h.nodes[key])
	}
}

func (s *hubSource) close() {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.running, s)
	if s.self.Key != "" {
		h.vanish(s.self.Key, "goodbye")
	}
}

// add queues a sighting, without a limit. The caller holds hub.mu.
func (s *hubSource) add(n discovery.Sighting) {
	if n.Key == s.self.Key {
		return
	}
	s.queue = append(s.queue, n)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *hubSource) drain() []discovery.Sighting {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	n := s.queue
	s.queue = nil
	return n
}

func TestMemoryHubPassesSourceSuite(t *testing.T) {
	discoverytest.TestSource(t, func(*testing.T) discoverytest.Rig {
		hub := new(memoryHub)
		return discoverytest.Rig{
			Source: hub.Source(discovery.Sighting{Node: "self", Addrs: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:1")}}),
			Appear: func(a netip.AddrPort) {
				hub.Appear(discovery.Sighting{Node: a.String(), Addrs: []netip.AddrPort{a}})
			},
			Vanish: func(a netip.AddrPort) { hub.Vanish(a.String()) },
			Within: time.Millisecond,
		}
	})
}
