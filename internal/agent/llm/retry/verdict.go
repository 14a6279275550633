package retry

import (
	"context"
	"errors"
	"time"

	"symbio/agent/llm"
)

// verdict is what the end of a request says of its server.
type verdict int

const (
	nothing verdict = iota // it ended for a reason of its caller
	works                  // it does its work; the request may be wrong
	fails                  // the same request may succeed later
	refuses                // it will refuse the next requests, too
)

// sayOf returns what the error of a request says of the server; nil means that there was an answer.
func sayOf(err error) verdict {
	var e *llm.Error
	switch {
	case err == nil:
		return works
	case !errors.As(err, &e):
		return nothing
	}
	switch e.Err {
	case llm.ErrRateLimited, llm.ErrUnavailable, llm.ErrCut:
		return fails
	case llm.ErrAuth, llm.ErrQuota, llm.ErrNoModel, llm.ErrDenied, llm.ErrTimeout:
		return refuses
	}
	return works
}

// canFailOver reports whether another model, or a later request, may succeed after this error.
func canFailOver(ctx context.Context, err error) bool {
	var e *llm.Error
	return ctx.Err() == nil && errors.As(err, &e) && !errors.Is(err, llm.ErrRefused) && !errors.Is(err, llm.ErrDrift)
}

// retryAfter returns how long the server asked to wait, 0 = it did not.
func retryAfter(err error) time.Duration {
	var e *llm.Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// unreached reports whether there was no connection to the server.
func unreached(err error) bool {
	var e *llm.Error
	return errors.As(err, &e) && e.Unreached
}
