package agent

import (
	"context"
	"iter"
	"sync/atomic"

	"symbio/agent/llm"
)

// thinking is a model that thinks as much as a definition says.
type thinking struct {
	llm.Model
	tokens int
	notice func(string)
	told   *atomic.Bool
}

// thinker is the agent's model, thinking as its definition says.
func (l *life) thinker() llm.Model {
	if l.def.Thinking == 0 {
		return l.model
	}
	return thinking{l.model, l.def.Thinking, func(text string) {
		e := Event{Type: EventNotice, Agent: l.self.ID, Name: l.self.Name, Text: text}
		if l.parent != nil {
			e.Parent = l.parent.self.ID
		}
		l.factory.cfg.Report(e)
	}, new(atomic.Bool)}
}

// Stream asks with that many tokens for thoughts. Most servers have no such thing, and leave it out without a word: that
// no thought was shown in the first answer is told once.
func (t thinking) Stream(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	if r.Thinking == 0 {
		r.Thinking = t.tokens
	}
	return func(yield func(llm.Chunk, error) bool) {
		seen := false
		for c, err := range t.Model.Stream(ctx, r) {
			seen = seen || c.Thought != "" || c.Thinking != nil
			if c.Stop != "" && !t.told.Swap(true) && !seen && t.tokens > 0 {
				t.notice("The definition asks for thinking, and the model " + t.Name() + " shows none.")
			}
			if !yield(c, err) {
				return
			}
		}
	}
}
