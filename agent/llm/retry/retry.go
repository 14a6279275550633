// Package retry asks a model again when its answer did not begin.
//
// The one idea: nothing is ever yielded twice. A request that failed is repeated only while nothing
// of its answer was yielded, and only when the same request may succeed later: too many requests, a
// server that fails or is overloaded, a connection that broke off.
//
// Guarantees: the number of repetitions and each wait are bounded; waits grow and are spread, so
// that agents that failed together do not come back together; a server that says when to come back
// is believed, up to the longest wait; every repetition is yielded as llm.Retry; no wait goes
// beyond the context's deadline. It knows no wire.
package retry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"symbio/actor/backoff"
	"symbio/agent/llm"
)

// ErrStopped reports that the reader of an answer has stopped the iteration.
var ErrStopped = errors.New("stopped")

// Policy configures how often and when requests are repeated. The zero value is usable.
type Policy struct {
	// Max is how often a request is repeated. Default 3; negative is never.
	Max int
	// BackOff is the wait before the first repetition; it doubles each time, and a random part of up
	// to a half is taken off. A server's Retry-After wins. Default 500ms.
	BackOff time.Duration
	// MaxBackOff is the longest wait. A server that asks for more gets no further request: the caller
	// learns how long. Default 20s: people wait no longer without being told.
	MaxBackOff time.Duration
	// Logger receives repetitions (Info). Default: silent.
	Logger *slog.Logger
}

func (p Policy) withDefaults() Policy {
	if p.Max == 0 {
		p.Max = 3
	}
	if p.BackOff <= 0 {
		p.BackOff = 500 * time.Millisecond
	}
	if p.MaxBackOff <= 0 {
		p.MaxBackOff = 20 * time.Second
	}
	if p.Logger == nil {
		p.Logger = slog.New(slog.DiscardHandler)
	}
	return p
}

// Stream makes requests of the model of that name until one of them is answered, or makes no sense
// to repeat, and yields what it emits. once makes one request; it returns the error of emit, which
// is ErrStopped.
func (p Policy) Stream(ctx context.Context, model string, yield func(llm.Chunk, error) bool, once func(emit func(llm.Chunk) error) error) {
	p = p.withDefaults()
	for attempt := 1; ; attempt++ {
		began := false
		err := once(func(c llm.Chunk) error {
			if began = true; !yield(c, nil) {
				return ErrStopped
			}
			return nil
		})
		if err == nil || errors.Is(err, ErrStopped) {
			return
		}
		wait, again := p.wait(ctx, attempt, err)
		if began || !again {
			yield(llm.Chunk{}, err)
			return
		}
		p.Logger.Info("model request repeated", "model", model, "attempt", attempt, "err", err, "wait", wait)
		if !yield(llm.Chunk{Retry: &llm.Retry{Model: model, Next: model, Attempt: attempt, Wait: wait, Err: err}}, nil) {
			return
		}
		if err := sleep(ctx, wait); err != nil {
			yield(llm.Chunk{}, fmt.Errorf("model %s: %w", model, err))
			return
		}
	}
}

// wait says how long to wait after the failure of that number, and whether to ask again at all.
func (p Policy) wait(ctx context.Context, attempt int, err error) (time.Duration, bool) {
	var e *llm.Error
	if !errors.As(err, &e) || !repeatable(e) || attempt > p.Max || e.RetryAfter > p.MaxBackOff {
		return 0, false
	}
	wait := e.RetryAfter
	if wait <= 0 {
		wait = backoff.Jitter(backoff.Delay(attempt, p.BackOff, p.MaxBackOff), 2)
	}
	// The one whose deadline passes meanwhile learns more from the error at hand.
	deadline, ok := ctx.Deadline()
	return wait, !ok || time.Until(deadline) >= wait
}

// repeatable reports whether the same request may succeed later.
func repeatable(e *llm.Error) bool {
	return errors.Is(e, llm.ErrRateLimited) || errors.Is(e, llm.ErrUnavailable) || errors.Is(e, llm.ErrCut)
}

// sleep waits for d, or returns the error of ctx if that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
