package node_test

import (
	"context"
	"fmt"

	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/node"
	"symbio/agent/node/config"
)

// Town is what a model is asked for.
type Town struct {
	Name    string `json:"name"`
	Bridges int    `json:"bridges" jsonschema:"how many bridges it has"`
}

func ExampleAskFor() {
	answers := []string{"It is Bern.", "```json\n{\"name\": \"Bern\", \"bridges\": 18}\n```"}
	model := llm.Func(func(context.Context, llm.Request) (r llm.Response, err error) {
		r.Message.Text, answers = answers[0], answers[1:]
		return r, nil
	})
	settings := config.Default()
	settings.Model = "func:guide"
	err := node.Run(context.Background(), node.Config{Settings: settings, Models: map[string]llm.Model{"guide": model}}, func(ctx context.Context, n *node.Node) error {
		town, answer, err := node.AskFor[Town](ctx, n, "general", "Which town is this?")
		fmt.Printf("%+v after %d requests\n", town, answer.Spent.ModelCalls)
		return err
	})
	fmt.Println(err)
	// Output:
	// {Name:Bern Bridges:18} after 2 requests
	// <nil>
}

func ExampleNode_Stream() {
	model := llm.Func(func(context.Context, llm.Request) (r llm.Response, err error) {
		r.Message.Text = "Hello."
		return r, nil
	})
	settings := config.Default()
	settings.Model = "func:guide"
	err := node.Run(context.Background(), node.Config{Settings: settings, Models: map[string]llm.Model{"guide": model}}, func(ctx context.Context, n *node.Node) error {
		for e, err := range n.Stream(ctx, "general", "Say hello.") {
			if err != nil {
				return err
			}
			if e.Type == event.TypeText || e.Type == event.TypeDone {
				fmt.Println(e.Type, e.Text)
			}
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// text Hello.
	// done Hello.
	// <nil>
}
