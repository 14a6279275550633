package llm

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"
)

// rest is how long a model that failed is asked last: an outage is not found out anew with each turn.
const rest = 30 * time.Second

// First returns a model that asks the first of models, and when that fails before anything of its answer was yielded,
// the next. One that failed is asked after the others for half a minute, or as long as its server asked to wait.
//
// A refusal of the content, a recording that does not fit, and the end of the context, are not tried elsewhere. When all fail, the error wraps each
// one's. A list of one is that model.
func First(models ...Model) Model {
	if len(models) == 1 {
		return models[0]
	}
	return &first{models: models, until: make([]time.Time, len(models))}
}

type first struct {
	models []Model

	mu    sync.Mutex
	until []time.Time // how long each is asked last; guarded by mu
}

// Name is the names of the models, with commas between them.
func (f *first) Name() string {
	var names []string
	for _, m := range f.models {
		names = append(names, m.Name())
	}
	return strings.Join(names, ",")
}

// Stream asks the models in turn.
func (f *first) Stream(ctx context.Context, r Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		order := f.order()
		var failed []error
		for n, i := range order {
			err := f.ask(ctx, f.models[i], r, yield)
			if err == nil {
				return
			}
			var final *finalError
			if errors.As(err, &final) {
				yield(Chunk{}, final.err)
				return
			}
			f.failed(i, err)
			failed = append(failed, err)
			if n+1 < len(order) && !yield(Chunk{Retry: &Retry{Model: f.models[i].Name(), Next: f.models[order[n+1]].Name(), Attempt: 1, Err: err}}, nil) {
				return
			}
		}
		if len(failed) == 0 {
			yield(Chunk{}, &Error{Model: f.Name(), Detail: "the list of models is empty", Err: ErrNoModel})
			return
		}
		yield(Chunk{}, allFailed(failed))
	}
}

// finalError is a failure after which no other model is asked.
type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }

// ask asks one model. nil says that it answered, or that nobody wants more.
func (f *first) ask(ctx context.Context, m Model, r Request, yield func(Chunk, error) bool) error {
	began := false
	for c, err := range m.Stream(ctx, r) {
		switch {
		case err != nil && (began || !elsewhere(ctx, err)):
			return &finalError{err}
		case err != nil:
			return err
		}
		began = began || c.Retry == nil
		if !yield(c, nil) {
			return nil
		}
	}
	return nil
}

// elsewhere reports whether another model may do what one could not.
func elsewhere(ctx context.Context, err error) bool {
	var e *Error
	return ctx.Err() == nil && errors.As(err, &e) && !errors.Is(err, ErrRefused) && !errors.Is(err, ErrDrift)
}

// order is the models' numbers, those that rest behind the others.
func (f *first) order() (order []int) {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	var resting []int
	for i := range f.models {
		if now.Before(f.until[i]) {
			resting = append(resting, i)
		} else {
			order = append(order, i)
		}
	}
	return append(order, resting...)
}

// failed lets a model rest whose failure is likely to last: not one that this conversation only is too long for.
func (f *first) failed(i int, err error) {
	if errors.Is(err, ErrContextLength) || errors.Is(err, ErrInvalid) || errors.Is(err, ErrMalformed) || errors.Is(err, ErrUnfit) {
		return
	}
	wait := rest
	var e *Error
	if errors.As(err, &e) && e.RetryAfter > 0 {
		wait = min(e.RetryAfter, time.Hour)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.until[i] = time.Now().Add(wait)
}

func allFailed(failed []error) error {
	format := "no model of the list answered"
	args := make([]any, len(failed))
	for i, err := range failed {
		format += "; %w"
		args[i] = err
	}
	return fmt.Errorf(format, args...)
}

var _ Model = (*first)(nil)
