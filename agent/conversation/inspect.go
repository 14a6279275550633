package conversation

import "symbio/agent/llm"

// InspectedPart is a part of a model's input, and its size.
type InspectedPart struct {
	// Kind is "system" for a part of the system prompt, "tool" for a tool, "history" for the
	// messages of one role.
	Kind string `json:"kind"`
	// Name names the part or the tool, or the role.
	Name string `json:"name"`
	// Count is how many messages there are; 1 for other kinds.
	Count int `json:"count"`
	Bytes int `json:"bytes"`
	// Tokens is an estimate.
	Tokens int `json:"tokens"`
	// Text is the text of a part of the system prompt.
	Text string `json:"text,omitempty"`
	// Omitted is how many bytes at the end of the text are left out, when another node or a person
	// is shown a shortened one.
	Omitted int `json:"omitted,omitempty"`
}

// Inspect returns by part what the model was shown in the last request, without the requests for
// summaries. Before the first request it returns the parts in initial, the tools that there are, and
// the messages of the past.
func (c *Conversation) Inspect(initial ...Part) []InspectedPart {
	c.mu.Lock()
	parts, last, tools, past := c.parts, c.last, c.history.session.Tools, c.history.messages
	c.mu.Unlock()
	if last.Messages == nil {
		parts, last.Tools, last.Messages = initial, tools.Specs(), past
	}
	var all []InspectedPart
	for _, p := range parts {
		all = append(all, InspectedPart{Kind: "system", Name: p.Name, Count: 1, Bytes: len(p.Text), Tokens: EstimateTokens(p.Text), Text: p.Text})
	}
	for _, t := range last.Tools {
		n := len(t.Name) + len(t.Description) + len(t.Schema)
		all = append(all, InspectedPart{Kind: "tool", Name: t.Name, Count: 1, Bytes: n, Tokens: (n + perMessage) / bytesPerToken})
	}
	for _, role := range []llm.Role{llm.User, llm.Assistant, llm.Tool} {
		s := InspectedPart{Kind: "history", Name: string(role)}
		for _, m := range last.Messages {
			if m.Role == role {
				s.Count++
				s.Bytes += textBytes(m)
				s.Tokens += tokens(m)
			}
		}
		if s.Count > 0 {
			all = append(all, s)
		}
	}
	return all
}
