package community

import (
	"bytes"
	"log/slog"
	"sync"
)

// remoteCapability is a capability of another node. Its schemas are compiled at the first call, so that a node
// that announces many costs nothing until one is used.
type remoteCapability struct {
	Capability

	once          sync.Once
	input, output *schema // nil also when the node's cannot be used
}

// schemas returns the schemas to check calls with. A nil capability has none.
func (s *remoteCapability) schemas(log *slog.Logger, node NodeID) (input, output *schema) {
	if s == nil {
		return nil, nil
	}
	s.once.Do(func() {
		var err error
		if s.input, err = compile(s.Input); err != nil {
			log.Warn("input schema not used", "node", node, "capability", s.Name, "err", printable(err.Error()))
		}
		if s.output, err = compile(s.Output); err != nil {
			log.Warn("output schema not used", "node", node, "capability", s.Name, "err", printable(err.Error()))
		}
	})
	return s.input, s.output
}

// updateCapabilities returns the capabilities that a node announces now. Unchanged ones keep their compiled
// schemas.
func updateCapabilities(known map[string]*remoteCapability, announced map[string]Capability) map[string]*remoteCapability {
	now := make(map[string]*remoteCapability, len(announced))
	for name, p := range announced {
		if old := known[name]; old != nil && sameCapability(old.Capability, p) {
			now[name] = old
		} else {
			now[name] = &remoteCapability{Capability: p}
		}
	}
	return now
}

// sameCapability reports whether two capabilities of one name are equal.
func sameCapability(a, b Capability) bool {
	return a.Description == b.Description && a.Idempotent == b.Idempotent && a.Places == b.Places && bytes.Equal(a.Input, b.Input) && bytes.Equal(a.Output, b.Output)
}
