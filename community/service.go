package community

import (
	"bytes"
	"log/slog"
	"sync"
)

// service is a capability of another node. Its schemas are made ready at the first call, so that a
// node that announces many costs nothing until somebody uses them.
type service struct {
	Capability

	once          sync.Once
	input, output *schema // nil also when the node's cannot be used
}

// schemas are what to check calls by; a nil service has none.
func (s *service) schemas(log *slog.Logger, node NodeID) (input, output *schema) {
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

// renew keeps of what is known what the node says again: its schemas stay ready.
func renew(known map[string]*service, said map[string]Capability) map[string]*service {
	now := make(map[string]*service, len(said))
	for name, p := range said {
		if old := known[name]; old != nil && sameCapability(old.Capability, p) {
			now[name] = old
		} else {
			now[name] = &service{Capability: p}
		}
	}
	return now
}

func sameCapability(a, b Capability) bool {
	return a.Description == b.Description && a.Idempotent == b.Idempotent && bytes.Equal(a.Input, b.Input) && bytes.Equal(a.Output, b.Output)
}
