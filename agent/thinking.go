package agent

import (
	"cmp"
	"context"
	"iter"

	"symbio/agent/llm"
)

// currentModel is the model of an agent's conversation: each request asks the model of the settings at
// that moment.
type currentModel struct {
	settings *settings
	// thinking and temperature come from the definition.
	thinking    int
	temperature *float64
	notice      func(string)
}

func (c currentModel) Name() string { return c.settings.modelName() }

// Stream asks the model, which thinks as the settings and the definition say. Most servers ignore that
// silently: if no thought was shown in the first answer, that is reported once.
func (c currentModel) Stream(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	m, _ := c.settings.models()
	r.Thinking, r.Effort = cmp.Or(r.Thinking, c.thinking), cmp.Or(r.Effort, c.settings.currentEffort())
	r.Temperature = cmp.Or(r.Temperature, c.temperature)
	if c.thinking <= 0 {
		return m.Stream(ctx, r)
	}
	return func(yield func(llm.Chunk, error) bool) {
		seen := false
		for k, err := range m.Stream(ctx, r) {
			seen = seen || k.Thought != "" || k.Thinking != nil || k.Usage != nil && k.Usage.Reasoning > 0
			if k.Stop != "" && !c.settings.warned.Swap(true) && !seen {
				c.notice("The definition asks for thinking, and the model " + m.Name() + " shows none.")
			}
			if !yield(k, err) {
				return
			}
		}
	}
}
