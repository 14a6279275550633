package conversation_test

import (
	"context"
	"encoding/json"

	"symbio/agent/llm"
)

// askByHand is the loop of model and tools that anybody writes by hand: ask the model, run what it asks for, ask again. It
// checks, reports and remembers nothing. It is the floor that benchmarks of agents are held against.
func askByHand(ctx context.Context, model llm.Model, tools map[string]func(json.RawMessage) (string, error), task string) (string, error) {
	messages := []llm.Message{{Role: llm.User, Text: task}}
	for {
		answer := llm.Message{Role: llm.Assistant}
		for c, err := range model.Stream(ctx, llm.Request{Messages: messages}) {
			if err != nil {
				return "", err
			}
			answer.Text += c.Text
			if c.Call != nil {
				answer.Calls = append(answer.Calls, *c.Call)
			}
		}
		messages = append(messages, answer)
		if len(answer.Calls) == 0 {
			return answer.Text, nil
		}
		var results []llm.ToolResult
		for _, c := range answer.Calls {
			text, err := tools[c.Name](c.Args)
			if err != nil {
				text = err.Error()
			}
			results = append(results, llm.ToolResult{CallID: c.ID, Name: c.Name, Text: text, IsError: err != nil})
		}
		messages = append(messages, llm.Message{Role: llm.Tool, Results: results})
	}
}
