package step

import (
	"context"
	"errors"
	"fmt"
)

// ErrLimit: a Loop ran as often as it may, and its condition does not hold.
var ErrLimit = errors.New("the limit of the loop is reached")

// Loop runs s on its own output until a condition holds of it, at most limit times. s
// runs at least once, unless the limit is below 1. With ErrLimit the last output is beside the
// error.
func Loop[T any](limit int, until func(T) bool, s Step[T, T]) Step[T, T] {
	return Func(func(ctx context.Context, in T) (T, error) {
		for range limit {
			if ctx.Err() != nil {
				return in, context.Cause(ctx)
			}
			var err error
			if in, err = s.Run(ctx, in); err != nil || until(in) {
				return in, err
			}
		}
		return in, fmt.Errorf("%w: %d times", ErrLimit, limit)
	})
}

// Reduce makes one value of many: f gets what came of those before, from initial on, and the next
// one. f must not change initial, which is the start of every run.
func Reduce[In, Out any](initial Out, f func(ctx context.Context, sum Out, next In) (Out, error)) Step[[]In, Out] {
	return Func(func(ctx context.Context, in []In) (Out, error) {
		sum := initial
		for i, next := range in {
			if ctx.Err() != nil {
				return sum, context.Cause(ctx)
			}
			var err error
			if sum, err = f(ctx, sum, next); err != nil {
				return sum, fmt.Errorf("item %d: %w", i, err)
			}
		}
		return sum, nil
	})
}
