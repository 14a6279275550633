package agent

import (
	"context"
	"fmt"

	"symbio/agent/budget"
	"symbio/agent/llm"
	"symbio/agent/session"
)

// sample asks the agent's model for an MCP server; see tool.SetConfig.Sample. The request is
// recorded, told to people, and paid from the task's budget like a request of the agent, one at a time.
func (i *instance) sample(ctx context.Context, server string, r llm.Request) (llm.Response, error) {
	i.task.sampling.Lock()
	defer i.task.sampling.Unlock()
	_, unmetered := i.settings.models()
	m := llm.Use(budget.MeterAside(unmetered, i.task.currentBudget), i.factory.cfg.Middleware.Model...)
	estimate := r.MaxTokens + len(r.System)/3
	for _, message := range r.Messages {
		estimate += len(message.Text) / 3
	}
	// Without a report after it, as when the node dies, the session counts the estimate.
	if err := i.record.Commit(session.Entry{Kind: session.Request, Usage: &llm.Usage{Input: estimate, Model: m.Name()}}); err != nil {
		return llm.Response{}, err
	}
	begun := false
	answer, err := llm.Collect(m.Stream(ctx, r), func(c llm.Chunk) { begun = begun || c.Retry == nil })
	if refused := err != nil && !begun && ctx.Err() == nil; refused || answer.Usage != (llm.Usage{}) {
		i.record.add(session.Entry{Kind: session.Report, Usage: &answer.Usage}) // the commit before the next request reports the error
	}
	how := fmt.Sprintf("%d tokens", answer.Usage.Input+answer.Usage.Output)
	if err != nil {
		how = err.Error()
	}
	i.events.notice(fmt.Sprintf("The MCP server %s asked the model %s: %s.", server, m.Name(), how))
	i.task.alert(&i.events)
	return answer, err
}
