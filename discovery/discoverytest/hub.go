// Package discoverytest helps to test what has to do with discovery: a suite that every Source passes, and a Hub, a
// network in memory whose sources see each other at once.
//
// The Hub starts no goroutines of its own and keeps no time; it works inside and outside a synctest bubble. Its methods
// may be called concurrently. What happens is reported in the order in which it happened.
package discoverytest

import (
	"context"
	"maps"
	"slices"
	"sync"

	"symbio/discovery"
)

// Hub is a network in memory. The zero value is an empty one.
type Hub struct {
	mu     sync.Mutex
	seen   map[string]discovery.Sighting // guarded by mu; by key
	eyes   map[*HubSource]bool           // guarded by mu; the sources that run
	asked  []string                      // guarded by mu
	silent map[string]bool               // guarded by mu
}

// Appear lets every source of the hub see s, from now on. Source and Gone need not be set; Key defaults to Node.
func (h *Hub) Appear(s discovery.Sighting) {
	s.Source, s.Gone = hubName, false
	if s.Key == "" {
		s.Key = s.Node
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seen == nil {
		h.seen = map[string]discovery.Sighting{}
	}
	h.seen[s.Key] = s
	delete(h.silent, s.Key)
	h.tell(s)
}

// Vanish takes what has appeared under key away, as a goodbye does.
func (h *Hub) Vanish(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.vanish(key, "goodbye")
}

// Silence makes what has appeared under key vanish when somebody asks for it again, as a killed process does.
func (h *Hub) Silence(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.silent == nil {
		h.silent = map[string]bool{}
	}
	h.silent[key] = true
}

// Asked returns the keys that were asked for again, in order.
func (h *Hub) Asked() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.asked...)
}

// Source returns a source that sees all the others of the hub, and is seen as self by them while it runs. With a zero
// self it only looks.
func (h *Hub) Source(self discovery.Sighting) *HubSource {
	if self.Key == "" {
		self.Key = self.Node
	}
	return &HubSource{hub: h, self: self, wake: make(chan struct{}, 1)}
}

func (h *Hub) vanish(key, why string) {
	s, ok := h.seen[key]
	if !ok {
		return
	}
	delete(h.seen, key)
	s.Gone, s.Addrs, s.Why = true, nil, why
	h.tell(s)
}

func (h *Hub) tell(s discovery.Sighting) {
	for e := range h.eyes {
		e.see(s)
	}
}

const hubName = "memory"

// HubSource is one node's view of a Hub.
type HubSource struct {
	hub  *Hub
	self discovery.Sighting
	wake chan struct{}
	news []discovery.Sighting // guarded by hub.mu
}

var (
	_ discovery.Source      = (*HubSource)(nil)
	_ discovery.Reconfirmer = (*HubSource)(nil)
)

// Name returns "memory".
func (*HubSource) Name() string { return hubName }

// Reconfirm asks for key again: it vanishes if it was silenced.
func (s *HubSource) Reconfirm(key string) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.asked = append(s.hub.asked, key)
	if s.hub.silent[key] {
		s.hub.vanish(key, "no answer")
	}
}

// Run reports the others until ctx ends.
func (s *HubSource) Run(ctx context.Context, report func(discovery.Sighting)) error {
	s.open()
	defer s.close()
	for {
		for _, n := range s.take() {
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

func (s *HubSource) open() {
	h := s.hub
	if s.self.Key != "" {
		h.Appear(s.self)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.eyes == nil {
		h.eyes = map[*HubSource]bool{}
	}
	h.eyes[s] = true
	s.news = nil
	for _, key := range slices.Sorted(maps.Keys(h.seen)) {
		s.see(h.seen[key])
	}
}

func (s *HubSource) close() {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.eyes, s)
	if s.self.Key != "" {
		h.vanish(s.self.Key, "goodbye")
	}
}

// see queues a sighting; hub.mu is held. The queue is as long as the test that fills it makes it.
func (s *HubSource) see(n discovery.Sighting) {
	if n.Key == s.self.Key {
		return
	}
	s.news = append(s.news, n)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *HubSource) take() []discovery.Sighting {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	n := s.news
	s.news = nil
	return n
}
