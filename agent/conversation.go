package agent

import (
	"context"

	"symbio/agent/conversation"
	"symbio/agent/llm"
	"symbio/community"
	"symbio/security/visible"
)

// newConversation returns the agent's conversation with its model. It lasts over tasks and ends
// with the agent, so an agent that is restarted starts with an empty one.
func (a *Agent) newConversation() *conversation.Conversation {
	i := a.instance
	return conversation.New(conversation.Config{
		Model: llm.Use(currentModel{i}, i.factory.cfg.Middleware.Model...), Tools: a.set, MaxTurns: i.def.MaxTurns, Window: a.window,
		System: a.system,
		Before: func(ctx context.Context, turn int) bool {
			changed := a.updateDynamicTools(ctx)
			if turn > 1 {
				a.skills.refreshAfterTools(ctx)
			}
			return changed || a.toldMode != i.settings.currentMode()
		},
		Watch:    a.watch,
		ForTools: i.task.forTools,
		OnLost:   a.skills.messagesLost,
		Journal:  &i.record,
		Past:     i.record.past,
	})
}

// watch turns the conversation's events into events of the agent, and reports tool calls as
// progress to the task's caller. It runs in the goroutine of Receive.
func (a *Agent) watch(ctx context.Context, e conversation.Event) {
	switch e.Kind {
	case conversation.Received:
		a.onChunk(ctx, e.Turn, e.Chunk)
	case conversation.Answered:
		usage := e.Usage
		a.instance.report(Event{Type: EventTurn, Turn: e.Turn, Usage: &usage, Context: e.Context, Window: e.Window})
		alertBudget(a.instance)
	case conversation.Calling:
		for _, c := range e.Calls {
			community.Report(ctx, community.Progress{Message: "asks for " + c.Name})
		}
	case conversation.Steered:
		a.instance.report(Event{Type: EventSteered, Turn: e.Receipt.Turn, Text: e.Receipt.Text, Outcome: string(e.Receipt.Outcome), Why: e.Receipt.Why})
	case conversation.Compacted:
		a.instance.report(compactionEvent(e.Turn, e.Compaction))
	}
}

// onChunk reports a chunk of the model's answer as an event, and streams its text to the task's
// caller. The texts of two turns are separated by a blank line. The error of Emit is ignored: if
// the caller is gone, ctx ends as well.
func (a *Agent) onChunk(ctx context.Context, turn int, c llm.Chunk) {
	if c.Retry != nil {
		a.instance.report(retryEvent(turn, c.Retry))
	}
	if c.Thought != "" {
		a.instance.report(Event{Type: EventThought, Turn: turn, Text: c.Thought})
	}
	if c.Text == "" {
		return
	}
	text := c.Text
	if a.textTurn > 0 && a.textTurn < turn {
		text = "\n\n" + text
	}
	a.textTurn = turn
	_ = community.Emit(ctx, []byte(text), "text/plain")
	a.instance.report(Event{Type: EventText, Turn: turn, Text: c.Text})
}

// retryEvent returns the event for a failed request that is repeated.
func retryEvent(turn int, r *llm.Retry) Event {
	return Event{Type: EventRetry, Turn: turn, Model: r.Model, Next: r.Next, Attempt: r.Attempt, Wait: r.Wait.Seconds(), Why: r.Err.Error()}
}

// compactionEvent returns the event for a compaction. Done and Total are the tokens after and
// before it.
func compactionEvent(turn int, c *conversation.Compaction) Event {
	text := visible.Plural(c.Cut, "result") + " of tools cut"
	if c.Summed > 0 {
		text += ", " + visible.Plural(c.Summed, "message") + " summed up"
	}
	out := Event{Type: EventCompact, Turn: turn, Text: text, Done: float64(c.After), Total: float64(c.Before)}
	if c.Usage != (llm.Usage{}) {
		out.Usage = &c.Usage
	}
	if c.Err != nil {
		out.Why = "the model did not sum up: " + c.Err.Error()
	}
	return out
}
