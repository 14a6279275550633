package llm_test

import (
	"context"
	"fmt"
	"iter"

	"symbio/agent/llm"
)

func ExampleUse() {
	echo := llm.Func(func(_ context.Context, r llm.Request) (llm.Response, error) {
		return llm.Response{Message: llm.Message{Text: r.System}}, nil
	})
	note := func(word string) llm.Middleware {
		return func(ctx context.Context, r llm.Request, next llm.StreamFunc) iter.Seq2[llm.Chunk, error] {
			r.System += word
			return next(ctx, r)
		}
	}
	answer, err := llm.Collect(llm.Use(echo, note("outer "), note("inner")).Stream(context.Background(), llm.Request{}), nil)
	fmt.Println(answer.Message.Text, err)
	// Output: outer inner <nil>
}
