package llmtest_test

import (
	"context"
	"fmt"
	"testing"

	"symbio/agent/llm"
	"symbio/agent/llm/llmtest"
)

func TestFuncPassesTheSuite(t *testing.T) {
	llmtest.Run(t, func(t *testing.T, a llmtest.Answer) llm.Model {
		return llmtest.Func(func(ctx context.Context, r llm.Request) (llm.Response, error) {
			if a.Stall {
				<-ctx.Done()
				return llm.Response{}, ctx.Err()
			}
			got := llm.Response{Message: llm.Message{Text: a.Text, Calls: a.Calls}, Usage: a.Usage, Stop: a.Stop}
			if a.Fault != nil {
				return got, &llm.Error{Model: "func", Err: a.Fault}
			}
			return got, nil
		})
	})
}

func ExampleFunc() {
	echo := llmtest.Func(func(_ context.Context, r llm.Request) (llm.Response, error) {
		return llm.Response{Message: llm.Message{Text: "you said " + r.Messages[len(r.Messages)-1].Text}}, nil
	})
	got, err := llm.Collect(echo.Stream(context.Background(), llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "hi"}}}), nil)
	fmt.Println(got.Message.Text, got.Stop, err)
	// Output: you said hi end <nil>
}
