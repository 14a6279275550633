package agent

import (
	"context"
	"iter"
	"sync/atomic"

	"symbio/agent/llm"
)

// thinking is a model that asks for the number of thinking tokens that a definition says. warned is shared by all copies, so
// that the notice is reported once.
type thinking struct {
	llm.Model
	tokens int
	notice func(text string)
	warned *atomic.Bool
}

// thinkingModel returns the agent's model, with the thinking tokens of its definition. It is the model itself if the
// definition says nothing.
func (i *instance) thinkingModel() llm.Model {
	if i.def.Thinking == 0 {
		return i.model
	}
	return thinking{i.model, i.def.Thinking, i.notice, new(atomic.Bool)}
}

// Stream asks the model with that number of thinking tokens. Most servers ignore the setting silently, so an answer without
// thoughts is reported once, after the first answer.
func (t thinking) Stream(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	if r.Thinking == 0 {
		r.Thinking = t.tokens
	}
	return func(yield func(llm.Chunk, error) bool) {
		seen := false
		for c, err := range t.Model.Stream(ctx, r) {
			seen = seen || c.Thought != "" || c.Thinking != nil
			if c.Stop != "" && !t.warned.Swap(true) && !seen && t.tokens > 0 {
				t.notice("The definition asks for thinking, and the model " + t.Name() + " shows none.")
			}
			if !yield(c, err) {
				return
			}
		}
	}
}
