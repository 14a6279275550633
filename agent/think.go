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
	notice func(text string)
	warned *atomic.Bool
}

// thinkingModel returns the agent's model, thinking as its definition says.
func (i *instance) thinkingModel() llm.Model {
	if i.def.Thinking == 0 {
		return i.model
	}
	return thinking{i.model, i.def.Thinking, i.notice, new(atomic.Bool)}
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
			if c.Stop != "" && !t.warned.Swap(true) && !seen && t.tokens > 0 {
				t.notice("The definition asks for thinking, and the model " + t.Name() + " shows none.")
			}
			if !yield(c, err) {
				return
			}
		}
	}
}
