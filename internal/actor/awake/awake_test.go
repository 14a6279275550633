package awake_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"symbio/internal/actor/awake"
)

// A clock whose timers are late in turn by as much as the case says, then in time. Signs of life are read at points in time.
func TestSilenceThatTheProcessDidNotRunThroughDoesNotCount(t *testing.T) {
	const limit = 4 * time.Second
	for name, c := range map[string]struct {
		late  []time.Duration
		signs []time.Duration
		want  time.Duration
	}{
		"in time":                        {nil, nil, limit},
		"in time, after a sign":          {nil, []time.Duration{2500 * time.Millisecond}, 6500 * time.Millisecond},
		"a little late":                  {[]time.Duration{1, 2, 3, 4}, nil, limit + 10},
		"each part takes twice as long":  {[]time.Duration{time.Second, time.Second, time.Second, time.Second}, nil, 2 * limit},
		"stopped for less than a period": {[]time.Duration{0, 3 * time.Second}, nil, limit + 3*time.Second},
		"stopped for more than a period": {[]time.Duration{0, 0, 0, time.Minute}, nil, limit + time.Minute + limit},
		"stopped again and again":        {[]time.Duration{time.Minute, time.Hour}, nil, time.Minute + time.Hour + 2*time.Second + limit},
		"what came is read at the end":   {[]time.Duration{0, time.Minute}, []time.Duration{62 * time.Second}, 62*time.Second + limit},
		"a sign, then late":              {[]time.Duration{2 * time.Second}, []time.Duration{time.Second}, time.Second + 2*time.Second + limit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				clock := awake.Clock{After: func(d time.Duration) <-chan time.Time {
					if len(c.late) > 0 {
						d, c.late = d+c.late[0], c.late[1:]
					}
					return time.After(d)
				}}
				silence := func() time.Duration {
					now, last := time.Since(begun), time.Duration(0)
					for _, s := range c.signs {
						if s <= now {
							last = s
						}
					}
					return now - last
				}
				if !clock.Silent(t.Context(), limit, silence) || time.Since(begun) != c.want {
					t.Errorf("silent after %v, want %v", time.Since(begun), c.want)
				}
			})
		})
	}
}

func TestTimeoutEndsWithItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("too slow")
		begun := time.Now()
		ctx, cancel := awake.Clock{}.WithTimeoutCause(t.Context(), time.Second, why)
		<-ctx.Done()
		if context.Cause(ctx) != why || time.Since(begun) != time.Second {
			t.Errorf("%v after %v", context.Cause(ctx), time.Since(begun))
		}
		cancel()
		ctx, cancel = awake.Clock{}.WithTimeoutCause(t.Context(), time.Second, why)
		cancel()
		if !errors.Is(context.Cause(ctx), context.Canceled) || time.Since(begun) != time.Second {
			t.Errorf("canceled: %v after %v", context.Cause(ctx), time.Since(begun))
		}
	})
}
