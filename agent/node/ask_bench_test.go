//go:build unix

package node_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"symbio/agent/llm"
	"symbio/agent/node"
	"symbio/agent/node/config"
	"symbio/agent/tool"
	"symbio/internal/agent/node/state"
	"symbio/security/permission"
)

// BenchmarkAsk is Node.Ask of a task of one call, one after the other and 64 side by side, on a node that keeps sessions and on one
// that does not. The first makes about 310 allocations more than the second (994 and 681 were measured), and 4 commits.
func BenchmarkAsk(b *testing.B) {
	for _, store := range []string{"off", "sqlite"} {
		b.Run(store, func(b *testing.B) {
			withNode(b, store, func(n *node.Node) {
				b.ReportAllocs()
				for b.Loop() {
					askOnce(b, n)
				}
			})
		})
		b.Run(store+",64", func(b *testing.B) {
			withNode(b, store, func(n *node.Node) {
				b.SetParallelism(32)
				b.ReportAllocs()
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						askOnce(b, n)
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
			})
		})
	}
}

func askOnce(b *testing.B, n *node.Node) {
	if a, err := n.Ask(b.Context(), "", "Say hello."); err != nil || a.Text != "HELLO" {
		b.Errorf("%q, %v", a.Text, err)
	}
}

// withNode runs a node with a store of sessions, a tool and a model that calls it once, for the time of do.
func withNode(b *testing.B, store string, do func(*node.Node)) {
	b.Helper()
	shout := tool.New(tool.Spec{Name: "shout", Description: "Says it louder."}, func(_ context.Context, in struct{ Text string }) tool.Result {
		return tool.Result{Text: strings.ToUpper(in.Text)}
	})
	model := llm.Func(func(_ context.Context, r llm.Request) (llm.Response, error) {
		last := r.Messages[len(r.Messages)-1]
		if len(last.Results) > 0 {
			return llm.Response{Message: llm.Message{Text: last.Results[0].Text}}, nil
		}
		return llm.Response{Message: llm.Message{Calls: []llm.ToolCall{{Name: "shout", Args: llm.Args(`{"Text":"hello"}`)}}}}, nil
	})
	dir, err := os.MkdirTemp("", "sy") // short: sockets live below it
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(dir)
	c := config.Default()
	c.Node.Name, c.Node.Listen, c.Discovery.MDNS, c.Skills.Enabled, c.Model = "one", "127.0.0.1:0", false, false, "func:shouter"
	c.Session.Store = store
	c.Permissions.Allow = permission.Rules("shout")
	n, err := node.New(node.Config{
		Settings: c, State: state.Dir(dir), Dir: dir, Home: dir, Host: "one", Getenv: func(string) string { return "" },
		Models: map[string]llm.Model{"shouter": model}, Tools: []tool.Tool{shout},
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	select {
	case <-n.Ready():
		do(n)
	case err := <-ended:
		ended <- fmt.Errorf("it ended early: %w", err)
	}
	stop()
	if err := <-ended; err != nil {
		b.Error(err)
	}
}
