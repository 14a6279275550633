package step

import (
	"context"
	"time"
)

// Catch is s, and when it fails, what f makes of its input and error. When ctx has ended f is not
// asked.
func Catch[In, Out any](f func(ctx context.Context, in In, err error) (Out, error), s Step[In, Out]) Step[In, Out] {
	return Func(func(ctx context.Context, in In) (Out, error) {
		out, err := s.Run(ctx, in)
		if err == nil || ctx.Err() != nil {
			return out, err
		}
		return f(ctx, in, err)
	})
}

// Monitor is s, and f is told of each run: what went in, what came out, and how long it took. It is called in the
// goroutine of the run, before the run returns; for who must not hold
// it up there is EmitAfter.
func Monitor[In, Out any](f func(in In, out Out, err error, took time.Duration), s Step[In, Out]) Step[In, Out] {
	return Func(func(ctx context.Context, in In) (Out, error) {
		begun := time.Now()
		out, err := s.Run(ctx, in)
		f(in, out, err, time.Since(begun))
		return out, err
	})
}
