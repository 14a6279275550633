package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// ErrAllStepsFailed: none of the steps of a Parallel succeeded. The error wraps the errors of all of
// them, too.
var ErrAllStepsFailed = errors.New("all steps failed")

// Result is what came of one of several steps.
type Result[T any] struct {
	// Index is which of the steps it was, from 0 as they were given.
	Index int
	Value T // if Err is nil
	Err   error
}

// Results are what came of the steps of a Parallel, in the order in which they ended.
type Results[T any] []Result[T]

// Values are the outputs of the steps that succeeded, in the order in which they ended. As a step of its
// own it is Transform(Results[T].Values).
func (r Results[T]) Values() []T {
	var values []T
	for _, one := range r {
		if one.Err == nil {
			values = append(values, one.Value)
		}
	}
	return values
}

// Err is the errors of those that failed, joined in the order in which the steps were given; nil if
// none did.
func (r Results[T]) Err() error {
	inOrder := slices.Clone(r)
	slices.SortStableFunc(inOrder, func(a, b Result[T]) int { return a.Index - b.Index })
	var errs []error
	for _, one := range inOrder {
		if one.Err != nil {
			errs = append(errs, fmt.Errorf("step %d: %w", one.Index, one.Err))
		}
	}
	return errors.Join(errs...)
}

// Parallel gives its input to all of the steps, at most limit of them at a time, and waits for all. A limit below
// 1 is 16. A failing step cancels no other: its error is among the
// results, and only when all have failed is the error ErrAllStepsFailed. When ctx ends, the error
// is ctx's. Beside both errors are the results there are.
func Parallel[In, Out any](limit int, steps ...Step[In, Out]) Step[In, Results[Out]] {
	return Func(func(ctx context.Context, in In) (Results[Out], error) {
		results, err := runAll(ctx, atOnce(limit), steps, in)
		if err == nil && len(results) > 0 && !slices.ContainsFunc(results, func(r Result[Out]) bool { return r.Err == nil }) {
			err = fmt.Errorf("%w: %w", ErrAllStepsFailed, results.Err())
		}
		return results, err
	})
}

func runAll[In, Out any](outer context.Context, limit int, steps []Step[In, Out], in In) (Results[Out], error) {
	ctx, cancel := context.WithCancel(outer)
	defer cancel()
	var (
		mu      sync.Mutex
		results = make(Results[Out], 0, len(steps))
		places  = make(chan struct{}, limit)
		all     = workers{cancel: cancel}
	)
	for i, s := range steps {
		if !enter(ctx, places) {
			break
		}
		all.start(func() {
			defer func() { <-places }()
			attempt(ctx, s, i, in, func(r Result[Out]) {
				mu.Lock()
				defer mu.Unlock()
				results = append(results, r)
			})
		})
	}
	all.wait()
	if outer.Err() != nil {
		return results, context.Cause(outer)
	}
	return results, nil
}

// enter takes a place, and reports false when ctx has ended.
func enter(ctx context.Context, places chan struct{}) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}
