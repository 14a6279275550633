package retry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"symbio/agent/llm"
	"symbio/agent/llm/retry"
)

func TestWaitsGrowAndAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waits []time.Duration
		asked := 0
		retry.Policy{Max: 40, MaxBackOff: 4 * time.Second}.Stream(t.Context(), "m", func(c llm.Chunk, err error) bool {
			if c.Retry != nil {
				waits = append(waits, c.Retry.Wait)
			}
			return true
		}, func(func(llm.Chunk) error) error {
			asked++
			return &llm.Error{Model: "m", Err: llm.ErrUnavailable}
		})
		if asked != 41 || len(waits) != 40 {
			t.Fatalf("asked %d times, told %d", asked, len(waits))
		}
		for i, w := range waits {
			most := 4 * time.Second
			if i < 3 {
				most = 500 * time.Millisecond << i
			}
			if w > most || w < most/2 {
				t.Errorf("wait %d is %v, want %v to %v", i+1, w, most/2, most)
			}
		}
	})
}

func TestRetryEndsWhenReaderStops(t *testing.T) {
	for name, c := range map[string]struct {
		yields int // chunks that are taken
		asked  int
	}{"at the repetition": {0, 1}, "later": {2, 3}} {
		synctest.Test(t, func(t *testing.T) {
			asked, told := 0, 0
			retry.Policy{Max: 5}.Stream(t.Context(), "m", func(llm.Chunk, error) bool { told++; return told <= c.yields }, func(func(llm.Chunk) error) error {
				asked++
				return fmt.Errorf("asking: %w", &llm.Error{Err: llm.ErrRateLimited})
			})
			if asked != c.asked {
				t.Errorf("%s: asked %d times, want %d", name, asked, c.asked)
			}
		})
	}
}

func TestEndOfTheContextEndsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, stop)
		begin := time.Now()
		var last error
		retry.Policy{Max: 5, BackOff: time.Minute, MaxBackOff: time.Hour}.Stream(ctx, "m", func(_ llm.Chunk, err error) bool { last = err; return true }, func(func(llm.Chunk) error) error {
			return &llm.Error{Err: llm.ErrUnavailable}
		})
		if !errors.Is(last, context.Canceled) || time.Since(begin) != time.Second {
			t.Errorf("%v after %v, want canceled after 1s", last, time.Since(begin))
		}
	})
}
