//go:build unix

package node_test

import (
	"context"
	"fmt"
	"iter"

	"symbio/agent"
	"symbio/agent/conversation"
	"symbio/agent/llm"
	"symbio/agent/node"
	"symbio/agent/node/config"
	"symbio/community"
)

// Middleware around each task, the making of the system prompt and around each request of the model.
func Example_middleware() {
	settings := config.Default()
	settings.Model = "func:last"
	last := llm.Func(func(_ context.Context, r llm.Request) (llm.Response, error) { // says the end of its system prompt
		return llm.Response{Message: llm.Message{Text: r.System[len(r.System)-len("Answer in French."):]}}, nil
	})

	cfg := node.Config{Settings: settings, Models: map[string]llm.Model{"last": last}, Middleware: agent.Middleware{
		Task: []agent.TaskMiddleware{func(ctx context.Context, t agent.TaskInfo, next func(context.Context) (community.Reply, error)) (community.Reply, error) {
			fmt.Println("a task for", t.Agent.Name, "with", t.Model())
			return next(ctx)
		}},
		Context: []agent.ContextMiddleware{func(ctx context.Context, _ community.Member, next func(context.Context) ([]conversation.Part, error)) ([]conversation.Part, error) {
			parts, err := next(ctx)
			return append(parts, conversation.Part{Name: "language", Text: "\n\nAnswer in French."}), err
		}},
		Model: []llm.Middleware{func(ctx context.Context, r llm.Request, next llm.StreamFunc) iter.Seq2[llm.Chunk, error] {
			fmt.Println("the model is asked:", r.Messages[len(r.Messages)-1].Text)
			return next(ctx, r)
		}},
	}}
	fmt.Println(node.Run(context.Background(), cfg, func(ctx context.Context, n *node.Node) error {
		fmt.Println(n.Ask(ctx, "general", "Hello?"))
		return nil
	}))
	// Output:
	// a task for general with func
	// the model is asked: Hello?
	// Answer in French. <nil>
	// <nil>
}
