package agent

import (
	"context"
	"fmt"

	"symbio/agent/conversation"
	"symbio/agent/llm"
	"symbio/community"
)

// conversation is the agent's with its model. It lasts over tasks, and ends with the agent.
func (a *Agent) conversation() *conversation.Conversation {
	return conversation.New(conversation.Config{
		Model: a.life.model, Tools: a.set, MaxTurns: a.life.def.MaxTurns, Window: a.life.factory.cfg.Window(a.life.model.Name()),
		System: func(ctx context.Context) (string, error) {
			if err := a.reattach(ctx); err != nil {
				return "", err
			}
			return a.system(a.from), nil
		},
		Before:   func(ctx context.Context, _ int) { a.takeMore(ctx) },
		Watch:    a.watch,
		ForTools: a.life.inTime,
		Lost: func(earlier bool) {
			if earlier || a.shelf.took { // else no skill's text is lost
				a.shelf.lose()
			}
		},
	})
}

// watch reports what happens in the conversation.
func (a *Agent) watch(ctx context.Context, e conversation.Event) {
	switch e.Kind {
	case conversation.Heard:
		a.hear(ctx, e.Turn, e.Chunk)
	case conversation.Answered:
		usage := e.Usage
		a.report(Event{Type: EventTurn, Turn: e.Turn, Usage: &usage})
	case conversation.Calling:
		for _, c := range e.Calls {
			community.Report(ctx, community.Progress{Message: "asks for " + c.Name})
		}
	case conversation.Steered:
		a.report(Event{Type: EventSteered, Turn: e.Receipt.Turn, Text: e.Receipt.Text, Outcome: string(e.Receipt.Outcome), Why: e.Receipt.Why})
	case conversation.Compacted:
		a.report(compacted(e.Turn, e.Compaction))
	}
}

func (a *Agent) hear(ctx context.Context, turn int, c llm.Chunk) {
	if c.Retry != nil {
		a.report(retried(turn, c.Retry))
	}
	if c.Text == "" {
		return
	}
	a.say(ctx, c.Text, a.spoke > 0 && a.spoke < turn)
	a.spoke = turn
	a.report(Event{Type: EventText, Turn: turn, Text: c.Text})
}

// say gives a piece of the model's text to who listens to the task, each turn's on lines of its own. What
// goes wrong there ends ctx, too.
func (a *Agent) say(ctx context.Context, text string, newTurn bool) {
	if newTurn {
		text = "\n\n" + text
	}
	_ = community.Emit(ctx, []byte(text), "text/plain")
}

func retried(turn int, r *llm.Retry) Event {
	return Event{Type: EventRetry, Turn: turn, Model: r.Model, Next: r.Next, Attempt: r.Attempt, Wait: r.Wait.Seconds(), Why: r.Err.Error()}
}

func compacted(turn int, c *conversation.Compaction) Event {
	text := fmt.Sprintf("%d results of tools were cut", c.Cut)
	if c.Summed > 0 {
		text += fmt.Sprintf(", %d messages summed up", c.Summed)
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
