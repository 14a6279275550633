package budget

import (
	"sync"

	"symbio/agent/llm"
)

// sizes measures requests, in bytes. A conversation grows at its end, so that what stands before is not counted again with
// each turn.
type sizes struct {
	mu       sync.Mutex
	messages []llm.Message // that were counted last; guarded by mu
	body     int           // of these, without the last few; guarded by mu
	specs    []llm.ToolSpec
	tools    int // of specs; guarded by mu
}

const (
	perMessage = 12 // bytes that stand around one
	unsettled  = 4  // messages at the end that may still become longer
)

// of returns the size of a request without its tools, and the size of the tools.
func (s *sizes) of(r llm.Request) (body, tools int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	settled := max(0, len(r.Messages)-unsettled)
	known := max(0, len(s.messages)-unsettled)
	if known > settled || known > 0 && &s.messages[0] != &r.Messages[0] {
		known, s.body = 0, 0
	}
	for i := known; i < settled; i++ {
		s.body += sizeOf(&r.Messages[i])
	}
	s.messages = r.Messages
	body = len(r.System) + s.body
	for i := settled; i < len(r.Messages); i++ {
		body += sizeOf(&r.Messages[i])
	}
	if r.Output != nil {
		body += len(r.Output.Schema)
	}
	if len(r.Tools) != len(s.specs) || len(r.Tools) > 0 && &r.Tools[0] != &s.specs[0] {
		s.specs, s.tools = r.Tools, 0
		for i := range r.Tools {
			s.tools += perMessage + len(r.Tools[i].Name) + len(r.Tools[i].Description) + len(r.Tools[i].Schema)
		}
	}
	return body, s.tools
}

func sizeOf(m *llm.Message) int {
	n := perMessage + len(m.Text) + perImage*len(m.Images)
	for i := range m.Calls {
		n += perMessage + len(m.Calls[i].Name) + len(m.Calls[i].Args)
	}
	for i := range m.Results {
		n += perMessage + len(m.Results[i].Text) + perImage*len(m.Results[i].Images)
	}
	for i := range m.Thinking {
		n += len(m.Thinking[i].Text) + len(m.Thinking[i].Signature) + len(m.Thinking[i].Sealed)
	}
	return n
}
