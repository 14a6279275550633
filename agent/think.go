package agent

import "symbio/agent/llm"

// thinking knows whether a model that is asked to think does. Only Receive touches it.
type thinking struct {
	seen bool // a thought
	told bool
}

func (t *thinking) see(c llm.Chunk) { t.seen = t.seen || c.Thought != "" || c.Thinking != nil }

// tell tells once, after the first answer, that the definition asks for thinking and the model has shown none: most
// servers have no such thing, and leave it out without a word.
func (t *thinking) tell(a *Agent) {
	if !t.seen && !t.told && a.life.def.Thinking > 0 {
		a.notice("The definition " + a.life.def.Name + " asks for thinking, and the model " + a.life.model.Name() + " shows none.")
	}
	t.told = true
}
