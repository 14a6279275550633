package llm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"
)

// failurePenalty is how long a failed model is asked last. Without it each turn during an outage
// would wait for the failure again.
const failurePenalty = 30 * time.Second

// First returns a model that asks models in order, until one begins to answer. A model that failed
// is asked after the others for half a minute, or as long as its server asked to wait.
//
// ErrRefused, ErrDrift and the end of the context are final: no other model is asked. If all models
// fail, the error wraps all their errors. First of one model returns that model.
func First(models ...Model) Model {
	if len(models) == 1 {
		return models[0]
	}
	return &first{models: models, demotedUntil: make([]time.Time, len(models))}
}

// first is a Model that fails over between models. It is safe for concurrent use.
type first struct {
	models []Model

	mu           sync.Mutex
	demotedUntil []time.Time // until when each is asked last; guarded by mu
}

// Name returns the names of the models, separated by commas.
func (f *first) Name() string {
	var names []string
	for _, m := range f.models {
		names = append(names, m.Name())
	}
	return strings.Join(names, ",")
}

// Stream asks the models in order. Each failover is yielded as a Retry.
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
			f.demote(i, err)
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

// finalError marks an error after which no other model is asked.
type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }

// ask asks one model. It returns nil if the model answered or the caller stopped the iteration. An
// error after the first chunk is final: another model's answer must not follow a part of this one.
func (f *first) ask(ctx context.Context, m Model, r Request, yield func(Chunk, error) bool) error {
	began := false
	for c, err := range m.Stream(ctx, r) {
		switch {
		case err != nil && (began || !canFailOver(ctx, err)):
			return &finalError{err}
		case err != nil:
			return err
		}
		began = began || c.Retry == nil
		if c.Usage != nil {
			used := *c.Usage
			used.Model = cmp.Or(used.Model, m.Name())
			c.Usage = &used
		}
		if !yield(c, nil) {
			return nil
		}
	}
	return nil
}

// canFailOver reports whether another model may succeed after this error.
func canFailOver(ctx context.Context, err error) bool {
	var e *Error
	return ctx.Err() == nil && errors.As(err, &e) && !errors.Is(err, ErrRefused) && !errors.Is(err, ErrDrift)
}

// order returns the indexes of the models in the order in which to ask them: recently failed ones last.
func (f *first) order() (order []int) {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	var resting []int
	for i := range f.models {
		if now.Before(f.demotedUntil[i]) {
			resting = append(resting, i)
		} else {
			order = append(order, i)
		}
	}
	return append(order, resting...)
}

// demote demotes a model whose failure is likely to last. Errors about this one request, such as
// ErrContextLength, do not demote it.
func (f *first) demote(i int, err error) {
	if errors.Is(err, ErrContextLength) || errors.Is(err, ErrInvalid) || errors.Is(err, ErrMalformed) || errors.Is(err, ErrUnfit) {
		return
	}
	wait := failurePenalty
	var e *Error
	if errors.As(err, &e) && e.RetryAfter > 0 {
		wait = min(e.RetryAfter, time.Hour)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.demotedUntil[i] = time.Now().Add(wait)
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
