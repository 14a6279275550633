package step

import (
	"context"
	"errors"
	"fmt"
)

// ErrNoSteps: a Race of no steps cannot be won.
var ErrNoSteps = errors.New("there are no steps to race")

// Race gives its input to all of the steps at once, and its output is the output of the first that
// succeeds. The others are cancelled then, and waited for. One that fails is not the
// end: the others go on. When all have failed the error joins theirs, in the order in which they
// were given. When ctx ends, all are cancelled and waited for, and the error is ctx's, whatever
// they come to: so with Timeout around it a race fails when the time is over.
func Race[In, Out any](steps ...Step[In, Out]) Step[In, Out] {
	return Func(func(ctx context.Context, in In) (Out, error) { return runRace(ctx, steps, in) })
}

func runRace[In, Out any](outer context.Context, steps []Step[In, Out], in In) (out Out, err error) {
	if len(steps) == 0 {
		return out, ErrNoSteps
	}
	if outer.Err() != nil {
		return out, context.Cause(outer)
	}
	ctx, cancel := context.WithCancel(outer)
	results := make(chan Result[Out], len(steps))
	all := workers{cancel: cancel}
	for i, s := range steps {
		all.start(func() { attempt(ctx, s, i, in, func(r Result[Out]) { results <- r }) })
	}
	out, err = first(outer, results)
	cancel()
	all.wait()
	return out, err
}

// first waits for the first success, or for all to fail; those that ctx has ended fail, too.
func first[Out any](ctx context.Context, results chan Result[Out]) (none Out, err error) {
	errs := make([]error, cap(results))
	for range errs {
		r := <-results
		if ctx.Err() != nil {
			return none, context.Cause(ctx)
		}
		if r.Err == nil {
			return r.Value, nil
		}
		errs[r.Index] = fmt.Errorf("step %d: %w", r.Index, r.Err)
	}
	return none, errors.Join(errs...)
}
