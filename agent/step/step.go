package step

import (
	"context"
	"fmt"
	"strings"
)

// Step turns an In into an Out.
//
// Run returns when the work is done, ctx ends, or the work fails; it leaves nothing running. Callers
// must not use an Out beside an error, unless the step says so.
type Step[In, Out any] interface {
	Run(ctx context.Context, in In) (Out, error)
}

// function is a Step made of a function.
type function[In, Out any] func(context.Context, In) (Out, error)

func (f function[In, Out]) Run(ctx context.Context, in In) (Out, error) { return f(ctx, in) }

// Func is the step that calls f.
func Func[In, Out any](f func(ctx context.Context, in In) (Out, error)) Step[In, Out] {
	return function[In, Out](f)
}

// Transform is the step that calls f, for what takes no time and cannot fail.
func Transform[In, Out any](f func(In) Out) Step[In, Out] {
	return Func(func(_ context.Context, in In) (Out, error) { return f(in), nil })
}

// Empty is the step that does nothing: its output is its input.
func Empty[T any]() Step[T, T] { return Transform(func(in T) T { return in }) }

// Join is the step that puts texts one behind the other, with a separator between them.
func Join(separator string) Step[[]string, string] {
	return Transform(func(in []string) string { return strings.Join(in, separator) })
}

// Any is a step whose types are known only when it runs, for lists and tables of steps that have
// nothing in common. An input that is no In is an error, and s does not run.
func Any[In, Out any](s Step[In, Out]) Step[any, any] {
	return Func(func(ctx context.Context, in any) (any, error) {
		typed, ok := in.(In)
		if !ok {
			return nil, fmt.Errorf("the step takes %T, and was given %T", *new(In), in)
		}
		return s.Run(ctx, typed)
	})
}
