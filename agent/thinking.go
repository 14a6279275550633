package agent

import (
	"context"
	"iter"
	"sync/atomic"

	"symbio/agent/llm"
)

// thinkingModel returns the agent's model, thinking as its definition says. Most servers ignore
// that silently: if no thought was shown in the first answer, that is reported once.
func (i *instance) thinkingModel() llm.Model {
	if i.def.Thinking == 0 {
		return i.model
	}
	var warned atomic.Bool
	return llm.Use(i.model, func(ctx context.Context, r llm.Request, next llm.StreamFunc) iter.Seq2[llm.Chunk, error] {
		if r.Thinking == 0 {
			r.Thinking = i.def.Thinking
		}
		return func(yield func(llm.Chunk, error) bool) {
			seen := false
			for c, err := range next(ctx, r) {
				seen = seen || c.Thought != "" || c.Thinking != nil
				if c.Stop != "" && !warned.Swap(true) && !seen && i.def.Thinking > 0 {
					i.notice("The definition asks for thinking, and the model " + i.model.Name() + " shows none.")
				}
				if !yield(c, err) {
					return
				}
			}
		}
	})
}
