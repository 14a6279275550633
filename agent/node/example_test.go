//go:build unix

package node_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"symbio/agent/llm"
	"symbio/agent/node"
	"symbio/agent/node/config"
	"symbio/agent/node/state"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/security/permission"
)

func Example() {
	dir, err := os.MkdirTemp("", "sy")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
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

	n, err := node.New(node.Config{Settings: settings, State: state.Dir(dir), Dir: dir, Models: map[string]llm.Model{"shouter": model}, Tools: []tool.Tool{shout}})
	if err != nil {
		panic(err)
	}
	count := func(_ context.Context, text string) (int, error) { return len(text), nil }
	if err := node.Offer(n, community.Capability{Name: "text.count"}, count); err != nil { // for other nodes
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	<-n.Ready()
	fmt.Println(n.Ask(ctx, "general", "Say hello."))
	stop()
	fmt.Println(<-ended)
	// Output:
	// HELLO <nil>
	// <nil>
}
