package llm

import (
	"context"
	"iter"
	"slices"
)

// StreamFunc asks a model, as Model.Stream does.
type StreamFunc func(ctx context.Context, r Request) iter.Seq2[Chunk, error]

// Middleware is put around the requests of a Model. It may change the
// request, pass on or change the chunks of the answer that next returns, or answer in the model's
// place. It must not write to what r refers to. It may be called concurrently.
type Middleware func(ctx context.Context, r Request, next StreamFunc) iter.Seq2[Chunk, error]

// Use returns m with middleware around it, the first outermost.
func Use(m Model, all ...Middleware) Model {
	for _, one := range slices.Backward(all) {
		m = modelWithMiddleware{m, one}
	}
	return m
}

// modelWithMiddleware is a Model with a Middleware around it.
type modelWithMiddleware struct {
	Model
	around Middleware
}

func (w modelWithMiddleware) Stream(ctx context.Context, r Request) iter.Seq2[Chunk, error] {
	return w.around(ctx, r, w.Model.Stream)
}
