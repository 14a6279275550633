package agent

import (
	"context"

	"symbio/agent/conversation"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/community"
)

// newConversation returns the agent's conversation with its model. It lasts over tasks and ends
// with the agent, so an agent that is restarted starts with an empty one.
func (a *Agent) newConversation() *conversation.Conversation {
	i, def := a.instance, &a.instance.order.Definition
	cfg := conversation.Config{
		Model:    llm.Use(currentModel{&i.settings, def.Thinking, def.Temperature, i.events.notice}, i.factory.cfg.Middleware.Model...),
		MaxTurns: def.MaxTurns, Window: a.window, Form: def.Output, Tools: a.set,
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
		Past:     i.record.past,
	}
	if i.factory.cfg.Journal != nil {
		cfg.Journal = &i.record
	}
	return conversation.New(cfg)
}

// watch reports the conversation's events as events of the agent, and streams the text of an answer to
// the task's caller. The texts of two turns are separated by a blank line. The error of Emit is ignored:
// if the caller is gone, ctx ends as well. It runs in the goroutine of Receive.
func (a *Agent) watch(ctx context.Context, e event.Event) {
	if e.Type == event.TypeText {
		text, turn := e.Text, event.PartOf[event.Turn](e).Turn
		if a.textTurn > 0 && a.textTurn < turn {
			text = "\n\n" + text
		}
		a.textTurn = turn
		_ = community.Emit(ctx, []byte(text), "text/plain")
	}
	a.instance.events.report(e)
	if e.Type == event.TypeTurn {
		a.instance.task.alert(&a.instance.events)
	}
}
