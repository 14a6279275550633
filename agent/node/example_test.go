//go:build unix

package node_test

import (
	"context"
	"fmt"
	"strings"

	"symbio/agent/llm"
	"symbio/agent/node"
	"symbio/agent/node/config"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/security/permission"
)

func Example() {
	shout := tool.New(tool.Spec{Name: "shout", Description: "Says it louder."}, func(_ context.Context, in struct{ Text string }) tool.Result {
		return tool.Result{Text: strings.ToUpper(in.Text)}
	})
	model := llm.Func(func(_ context.Context, r llm.Request) (llm.Response, error) { // shouts what it is told
		last := r.Messages[len(r.Messages)-1]
		if len(last.Results) > 0 {
			return llm.Response{Message: llm.Message{Text: last.Results[0].Text}}, nil
		}
		return llm.Response{Message: llm.Message{Calls: []llm.ToolCall{{Name: "shout", Args: llm.Args(`{"Text":"hello"}`)}}}}, nil
	})
	settings := config.Default()
	settings.Model = "func:shouter"
	settings.Permissions.Allow = permission.Rules("shout")

	cfg := node.Config{Settings: settings, Models: map[string]llm.Model{"shouter": model}, Tools: []tool.Tool{shout}}
	err := node.Run(context.Background(), cfg, func(ctx context.Context, n *node.Node) error {
		fmt.Println(n.Ask(ctx, "general", "Say hello."))
		count := func(_ context.Context, text string) (int, error) { return len(text), nil }
		return node.Offer(n, community.Capability{Name: "text.count"}, count) // to other nodes, while the node runs
	})
	fmt.Println(err)
	// Output:
	// HELLO <nil>
	// <nil>
}
