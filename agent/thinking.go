package agent

import (
	"cmp"
	"context"
	"iter"

	"symbio/agent/llm"
)

// currentModel is the model of an agent's conversation: each request asks the model of the settings at
// that moment.
type currentModel struct{ instance *instance }

func (c currentModel) Name() string {
	m, _ := c.instance.settings.models()
	return m.Name()
}

// Stream asks the model, which thinks as the settings and the definition say. Most servers ignore that
// silently: if no thought was shown in the first answer, that is reported once.
func (c currentModel) Stream(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	i := c.instance
	m, _ := i.settings.models()
	r.Thinking, r.Effort = cmp.Or(r.Thinking, i.def.Thinking), cmp.Or(r.Effort, i.settings.currentEffort())
	if i.def.Thinking <= 0 {
		return m.Stream(ctx, r)
	}
	return func(yield func(llm.Chunk, error) bool) {
		seen := false
		for c, err := range m.Stream(ctx, r) {
			seen = seen || c.Thought != "" || c.Thinking != nil || c.Usage != nil && c.Usage.Reasoning > 0
			if c.Stop != "" && !i.settings.warned.Swap(true) && !seen {
				i.notice("The definition asks for thinking, and the model " + m.Name() + " shows none.")
			}
			if !yield(c, err) {
				return
			}
		}
	}
}
