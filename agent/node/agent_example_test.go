//go:build unix

package node_test

import (
	"context"
	"fmt"

	"symbio/agent/node"
	"symbio/agent/node/config"
	"symbio/agent/tool"
	"symbio/security/permission"
)

// A whole agent: a tool made in Go beside the built-in ones, rules and a sandbox, and skills.
func Example_agent() {
	settings, err := config.Default().WithSecurity("standard")
	if err != nil {
		panic(err)
	}
	settings.Model, settings.Permissions.Allow = "scripted:testdata/greet.yaml", permission.Rules("shout")
	settings.Skills.Dirs = []string{"testdata/skills"} // beside the usual places
	shout := tool.New(tool.Spec{Name: "shout", Description: "Says it louder."}, func(_ context.Context, in struct{ Text string }) tool.Result {
		return tool.Result{Text: in.Text + "!"}
	})
	err = node.Run(context.Background(), node.Config{Settings: settings, Tools: []tool.Tool{shout}}, func(ctx context.Context, n *node.Node) error {
		answer, err := n.Ask(ctx, "general", "Say hello.")
		fmt.Println(answer)
		return err
	})
	fmt.Println(err)
	// Output:
	// hello!
	// <nil>
}
