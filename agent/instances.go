package agent

import (
	"strings"
	"sync"

	"symbio/community"
)

// instances are the running agents of a factory. It is safe for concurrent use.
type instances struct {
	mu  sync.Mutex
	ids map[community.MemberID]*instance // guarded by mu
}

func (s *instances) add(i *instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil {
		s.ids = map[community.MemberID]*instance{}
	}
	s.ids[i.self.ID] = i
}

func (s *instances) remove(i *instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ids, i.self.ID)
}

// byID returns the agent that is this member; nil = there is none.
func (s *instances) byID(id community.MemberID) *instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[id]
}

// byAddress returns the agent that has this address (peer.Address) among the requesters of a call; nil = there is none.
func (s *instances) byAddress(address string) *instance {
	_, id, _ := strings.Cut(address, "/")
	if i := s.byID(community.MemberID(id)); i != nil && i.address == address {
		return i
	}
	return nil
}
