package node

import (
	"strings"

	"symbio/discovery"
	symbiov1 "symbio/proto/symbio/v1"
)

// health says of each source of hints whether it works, the best source first.
func (n *Node) health() []*symbiov1.SourceHealth {
	out := make([]*symbiov1.SourceHealth, len(n.sources))
	for i, s := range n.sources {
		out[i] = &symbiov1.SourceHealth{Name: s.Name()}
		h, ok := s.(discovery.Healther)
		if !ok {
			continue
		}
		if err := h.Health(); err != nil {
			out[i].Problems = strings.Split(strings.TrimSpace(err.Error()), "\n")
		}
	}
	return out
}
