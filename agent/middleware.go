package agent

import (
	"context"
	"fmt"
	"slices"

	"symbio/agent/conversation"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/community"
)

// Middleware is what a Go program puts around the stages of its agents' turns. In each stage the first is outermost.
type Middleware struct {
	// Task is put around each task of an agent.
	Task []TaskMiddleware
	// Context is put around the making of the system prompt.
	Context []ContextMiddleware
	// Model is put around each request of an agent's model. The requests that it makes of next
	// count for the budget.
	Model []llm.Middleware
	// Tool is put around each call of a tool that may run, inside of the checks.
	Tool []tool.Middleware
}

// TaskMiddleware is put around each task of an agent: next does the task, at most once. It may pass on
// another context, change the reply, or answer in the agent's place. The tasks of one agent come one
// after the other.
type TaskMiddleware func(ctx context.Context, t TaskInfo, next func(context.Context) (community.Reply, error)) (community.Reply, error)

// TaskInfo describes a task for a TaskMiddleware.
type TaskInfo struct {
	Agent community.Member
	// Session is the id of the agent's conversation; "" = it is not kept.
	Session string
	// Model returns the name of the agent's model, which a person may change during the task.
	Model func() string
}

// withMiddleware does a task with the middleware around it.
func (a *Agent) withMiddleware(ctx context.Context, s community.Signal, around []TaskMiddleware) (community.Reply, error) {
	i := a.instance
	info := TaskInfo{Agent: i.self, Session: i.record.info().ID, Model: i.settings.modelName}
	next := func(ctx context.Context) (community.Reply, error) { return a.receive(ctx, s) }
	for _, m := range slices.Backward(around) {
		inner := next
		next = func(ctx context.Context) (community.Reply, error) { return m(ctx, info, inner) }
	}
	return next(ctx)
}

// ContextMiddleware is put around the making of an agent's system prompt, which is done at the
// start of each task, and again after messages were lost. next returns its parts; the middleware
// may add, change and remove parts. An error ends the task. It is called by one goroutine at a time
// for each agent.
type ContextMiddleware func(ctx context.Context, self community.Member, next func(context.Context) ([]conversation.Part, error)) ([]conversation.Part, error)

// system makes the parts of the system prompt, with the middleware around it.
func (a *Agent) system(ctx context.Context) ([]conversation.Part, error) {
	next := func(ctx context.Context) ([]conversation.Part, error) {
		if err := a.skills.reattach(ctx); err != nil {
			return nil, err
		}
		a.toldMode = a.instance.settings.currentMode()
		return slices.Concat(a.identity(a.callingNode), a.workContext(), a.skills.prompt(), part("mode", "%s", a.instance.settings.promptText()),
			part("missing tools", missingText, a.missing), outputPart(a.instance.order.Definition.Output)), nil
	}
	for _, m := range slices.Backward(a.instance.factory.cfg.Middleware.Context) {
		inner := next
		next = func(ctx context.Context) ([]conversation.Part, error) { return m(ctx, a.instance.self, inner) }
	}
	return next(ctx)
}

// part returns a part of the system prompt, text as format has it behind an empty line; none without text.
func part(name, format, text string) []conversation.Part {
	if text == "" {
		return nil
	}
	return []conversation.Part{{Name: name, Text: "\n\n" + fmt.Sprintf(format, text)}}
}

// outputPart returns the part that tells the model what its answer has to fit, if anything.
func outputPart(f *llm.Form) []conversation.Part {
	if f == nil {
		return nil
	}
	return []conversation.Part{{Name: "output", Text: "\n\n" + f.Output().Instruction()}}
}
