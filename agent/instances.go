package agent

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"symbio/community"
)

// instances are the running agents of a factory. It is safe for concurrent use.
type instances struct {
	mu  sync.Mutex
	ids map[community.MemberID]*instance // guarded by mu
}

// add registers an instance. A restarted one replaces its own entry, because the member id stays.
func (s *instances) add(i *instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil {
		s.ids = map[community.MemberID]*instance{}
	}
	s.ids[i.self.ID] = i
}

// remove unregisters an instance that has ended.
func (s *instances) remove(i *instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ids, i.self.ID)
}

// byID returns the instance of a member; nil if no agent of this node has that id.
func (s *instances) byID(id community.MemberID) *instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[id]
}

// all returns the running agents, in no order.
func (s *instances) all() []*instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.ids))
}

// byAddress returns the instance with an address (peer.Address) as it is written in
// Signal.Requester; nil if no agent of this node has it. The whole address must match: another node
// may name an id of this node's agents.
func (s *instances) byAddress(address string) *instance {
	_, id, _ := strings.Cut(address, "/")
	if i := s.byID(community.MemberID(id)); i != nil && i.permissions.address == address {
		return i
	}
	return nil
}
