package budget

import (
	"sync"

	"symbio/agent/llm"
)

// sizes measures requests in bytes. A conversation grows at its end, so sizes keeps the sum of the
// earlier messages: measuring all of them in each turn would take quadratic time. It is safe for
// concurrent use.
type sizes struct {
	mu       sync.Mutex
	messages []llm.Message  // of the last request; guarded by mu
	body     int            // the size of messages without the mutable tail; guarded by mu
	specs    []llm.ToolSpec // of the last request; guarded by mu
	tools    int            // the size of specs; guarded by mu
}

const (
	perMessage  = 12 // bytes for the role and the JSON around a message
	mutableTail = 4  // messages at the end that the conversation may still extend
)

// of returns the size of a request without its tools, and the size of the tools. A history that was
// replaced, which has another backing array, is measured again from the start.
func (s *sizes) of(r llm.Request) (body, tools int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	settled := max(0, len(r.Messages)-mutableTail)
	known := max(0, len(s.messages)-mutableTail)
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

// sizeOf returns the size of one message, with its calls, results and thoughts.
func sizeOf(m *llm.Message) int {
	n := perMessage + len(m.Text) + perImage*len(m.Images)
	for i := range m.Calls {
		n += perMessage + len(m.Calls[i].Name) + len(m.Calls[i].Args)
	}
	for i := range m.Results {
		n += perMessage + len(m.Results[i].Text) + perImage*len(m.Results[i].Images)
	}
	for i := range m.Thinking {
		n += len(m.Thinking[i].Text) + len(m.Thinking[i].Signature) + len(m.Thinking[i].Sealed) + len(m.Thinking[i].Raw)
	}
	return n
}
