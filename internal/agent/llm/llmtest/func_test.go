package llmtest_test

import (
	"context"
	"testing"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/retry"
)

// answering is a function that gives an answer of the suite.
func answering(a answer) llm.Func {
	return func(ctx context.Context, _ llm.Request) (llm.Response, error) {
		if a.Stall {
			<-ctx.Done()
			return llm.Response{}, ctx.Err()
		}
		got := llm.Response{Message: llm.Message{Text: a.Text, Calls: a.Calls}, Usage: a.Usage, Stop: a.Stop}
		if a.Fault != nil {
			return got, &llm.Error{Model: "func", Err: a.Fault}
		}
		return got, nil
	}
}

func TestFuncPassesTheSuite(t *testing.T) {
	runSuite(t, func(_ *testing.T, a answer) llm.Model { return answering(a) })
}

// broken is a model with a name of its own.
type broken struct{ llm.Model }

func (broken) Name() string { return "broken" }

func TestListPassesTheSuite(t *testing.T) {
	runSuite(t, func(_ *testing.T, a answer) llm.Model {
		return retry.New(retry.Config{Patience: -1}, broken{answering(answer{Fault: llm.ErrUnavailable})}, answering(a))
	})
}
