package step

import (
	"context"
	"errors"
	"fmt"
	"time"

	"symbio/community"
	"symbio/internal/actor/backoff"
)

// Again says how Retry repeats. The zero value tries three times.
type Again struct {
	// Tries is how often in all. Default 3: what fails for a moment is over it then.
	Tries int
	// Wait is how long before the second try; before each further one twice as long, at most half a
	// minute. Default 100 ms: a person does not notice it.
	Wait time.Duration
	// If says which errors are worth another try. Default: all but a *GateError, and what is denied
	// or invalid.
	If func(error) bool
}

const maxWait = 30 * time.Second

func (a Again) filled() Again {
	if a.Tries < 1 {
		a.Tries = 3
	}
	if a.Wait <= 0 {
		a.Wait = 100 * time.Millisecond
	}
	if a.If == nil {
		a.If = func(err error) bool {
			var blocked *GateError
			return !errors.As(err, &blocked) && !errors.Is(err, community.ErrDenied) && !errors.Is(err, community.ErrInvalid)
		}
	}
	return a
}

// Retry is s, tried again when it fails. The error comes from the last try. When ctx ends it is not
// tried again; ending while it waits, the error is ctx's.
func Retry[In, Out any](how Again, s Step[In, Out]) Step[In, Out] {
	how = how.filled()
	return Func(func(ctx context.Context, in In) (out Out, err error) {
		for try := 1; ; try++ {
			if out, err = s.Run(ctx, in); err == nil || ctx.Err() != nil || try == how.Tries || !how.If(err) {
				return out, err
			}
			select {
			case <-ctx.Done():
				return out, context.Cause(ctx)
			case <-time.After(backoff.Delay(try, how.Wait, maxWait)):
			}
		}
	})
}

// Timeout is s with at most d for a run. When it is over s is cancelled and waited for, and the
// error wraps context.DeadlineExceeded, whatever s comes to: what is late is not there.
func Timeout[In, Out any](d time.Duration, s Step[In, Out]) Step[In, Out] {
	late := fmt.Errorf("not done in %s: %w", d, context.DeadlineExceeded)
	return Func(func(outer context.Context, in In) (Out, error) {
		ctx, cancel := context.WithTimeoutCause(outer, d, late)
		defer cancel()
		out, err := s.Run(ctx, in)
		if ctx.Err() != nil && outer.Err() == nil {
			var none Out
			return none, late
		}
		return out, err
	})
}
