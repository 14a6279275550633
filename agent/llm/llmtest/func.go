package llmtest

import (
	"context"
	"fmt"
	"iter"

	"symbio/agent/llm"
)

// Func is a model that answers with what a function returns. Its text comes as one piece; its calls
// get ids if they have none or one that is taken; an empty stop becomes StopTools with calls, and
// StopEnd without. With an error, what came before it is yielded first.
type Func func(ctx context.Context, r llm.Request) (llm.Response, error)

// Name is "func".
func (Func) Name() string { return "func" }

// Stream calls the function.
func (f Func) Stream(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(llm.Chunk{}, fmt.Errorf("model func: %w", err))
			return
		}
		got, err := f(ctx, r)
		if got.Message.Text != "" && !yield(llm.Chunk{Text: got.Message.Text}, nil) {
			return
		}
		ids := llm.NewCallIDs(r.Messages)
		for _, c := range got.Message.Calls {
			c.ID, c.Args = ids.Take(c.ID), llm.Args(string(c.Args))
			if !yield(llm.Chunk{Call: &c}, nil) {
				return
			}
		}
		if err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		switch {
		case got.Stop != "":
		case len(got.Message.Calls) > 0:
			got.Stop = llm.StopTools
		default:
			got.Stop = llm.StopEnd
		}
		yield(llm.Chunk{Usage: &got.Usage, Stop: got.Stop}, nil)
	}
}

var _ llm.Model = Func(nil)
