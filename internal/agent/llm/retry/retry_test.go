package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/retry"
)

// failing is a model that fails with these errors in turn, and with the last one for ever, unless that is nil: then it answers.
type failing struct {
	asked int
	errs  []error
}

func (f *failing) model() llm.Model {
	return llm.Func(func(context.Context, llm.Request) (llm.Response, error) {
		f.asked++
		if err := f.errs[min(f.asked, len(f.errs))-1]; err != nil {
			return llm.Response{}, err
		}
		return llm.Response{Message: llm.Message{Text: "yes"}}, nil
	})
}

func unavailable(status int) error { return &llm.Error{Err: llm.ErrUnavailable, Status: status} }

func limited(wait time.Duration) error {
	return &llm.Error{Err: llm.ErrRateLimited, Status: 429, RetryAfter: wait}
}

func TestPausesGrowUntilThePatienceIsUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{errs: []error{unavailable(503)}}
		var waits []time.Duration
		begin := time.Now()
		_, err := llm.Collect(retry.New(retry.Config{}, f.model()).Stream(t.Context(), llm.Request{}), func(c llm.Chunk) {
			if c.Retry != nil {
				if waits = append(waits, c.Retry.Wait); c.Retry.Attempt != len(waits) || c.Retry.Err == nil || c.Retry.Model != "func" || c.Retry.Next != "func" {
					t.Errorf("told %+v as number %d", *c.Retry, len(waits))
				}
			}
		})
		if took := time.Since(begin); !errors.Is(err, llm.ErrUnavailable) || took > 10*time.Minute || took < 9*time.Minute {
			t.Errorf("%v after %v, want the server's error after nearly ten minutes", err, took)
		}
		if f.asked != len(waits)+1 {
			t.Errorf("asked %d times, told %d", f.asked, len(waits))
		}
		for i, w := range waits {
			most := 30 * time.Second
			if i < 6 {
				most = 500 * time.Millisecond << i
			}
			if w > most || w < most/2 {
				t.Errorf("wait %d is %v, want %v to %v", i+1, w, most/2, most)
			}
		}
	})
}

func TestOutagesAreWaitedFor(t *testing.T) {
	minutes := func(n time.Duration) (errs []error) {
		for range n * 60 { // no more are asked for
			errs = append(errs, unavailable(529))
		}
		return append(errs, nil)
	}
	for _, c := range []struct {
		name     string
		cfg      retry.Config
		deadline time.Duration // 0 = none
		errs     []error
		want     error
		asked    int
		least    time.Duration
		most     time.Duration
	}{
		{"no failure", retry.Config{}, 0, []error{nil}, nil, 1, 0, 0},
		{"three of three kinds", retry.Config{}, 0, []error{unavailable(503), limited(0), &llm.Error{Err: llm.ErrCut}, nil}, nil, 4, 1750 * time.Millisecond, 3500 * time.Millisecond},
		{"a server that was never reached", retry.Config{}, 0, []error{&llm.Error{Err: llm.ErrUnavailable, Unreached: true}}, llm.ErrUnavailable, 0, 1500 * time.Millisecond, 4 * time.Second},
		{"a server that says when", retry.Config{}, 0, []error{limited(20 * time.Minute), limited(7 * time.Second), nil}, nil, 3, 20*time.Minute + 7*time.Second, 20*time.Minute + 7*time.Second},
		{"a wait without end", retry.Config{}, 0, []error{limited(365 * 24 * time.Hour)}, llm.ErrRateLimited, 1, 0, 0},
		{"a wait behind the deadline", retry.Config{}, time.Minute, []error{limited(2 * time.Minute)}, llm.ErrRateLimited, 1, 0, 0},
		{"waits to the deadline", retry.Config{Patience: time.Second}, time.Minute, []error{limited(25 * time.Second)}, llm.ErrRateLimited, 3, 50 * time.Second, 50 * time.Second},
		{"no patience", retry.Config{Patience: -1}, 0, []error{unavailable(503)}, llm.ErrUnavailable, 1, 0, 0},
		{"no patience with a server that says when", retry.Config{Patience: -1}, 0, []error{limited(time.Second)}, llm.ErrRateLimited, 1, 0, 0},
		{"a wrong key", retry.Config{}, 0, []error{&llm.Error{Err: llm.ErrAuth, Status: 401}}, llm.ErrAuth, 1, 0, 0},
		{"a wrong request", retry.Config{}, 0, []error{&llm.Error{Err: llm.ErrInvalid, Status: 400}}, llm.ErrInvalid, 1, 0, 0},
		{"another error", retry.Config{}, 0, []error{errors.ErrUnsupported}, errors.ErrUnsupported, 1, 0, 0},
		{"more than the patience", retry.Config{}, 0, minutes(60), llm.ErrUnavailable, 0, 9 * time.Minute, 10 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if c.deadline > 0 {
					var stop context.CancelFunc
					ctx, stop = context.WithTimeout(ctx, c.deadline)
					defer stop()
				}
				f := &failing{errs: c.errs}
				begin := time.Now()
				_, err := llm.Collect(retry.New(c.cfg, f.model()).Stream(ctx, llm.Request{}), nil)
				if !errors.Is(err, c.want) || c.asked > 0 && f.asked != c.asked {
					t.Errorf("%v after %d requests, want %v after %d", err, f.asked, c.want, c.asked)
				}
				if took := time.Since(begin); took < c.least || took > c.most {
					t.Errorf("it took %v, want %v to %v", took, c.least, c.most)
				}
			})
		})
	}
}

func TestRetryEndsWhenReaderStops(t *testing.T) {
	for name, c := range map[string]struct {
		yields int // chunks that are taken
		asked  int
	}{"at the repetition": {0, 1}, "later": {2, 3}} {
		synctest.Test(t, func(t *testing.T) {
			told := 0
			f := &failing{errs: []error{limited(0)}}
			for range retry.New(retry.Config{}, f.model()).Stream(t.Context(), llm.Request{}) {
				if told++; told > c.yields {
					break
				}
			}
			if f.asked != c.asked {
				t.Errorf("%s: asked %d times, want %d", name, f.asked, c.asked)
			}
		})
	}
}

func TestEndOfTheContextEndsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, stop)
		begin := time.Now()
		f := &failing{errs: []error{limited(time.Minute)}}
		_, err := llm.Collect(retry.New(retry.Config{}, f.model()).Stream(ctx, llm.Request{}), nil)
		if !errors.Is(err, context.Canceled) || time.Since(begin) != time.Second {
			t.Errorf("%v after %v, want canceled after 1s", err, time.Since(begin))
		}
	})
}

func TestNothingIsYieldedTwice(t *testing.T) {
	asked := 0
	m := llm.Func(func(context.Context, llm.Request) (llm.Response, error) {
		asked++
		return llm.Response{Message: llm.Message{Text: "half"}}, unavailable(503)
	})
	got, err := llm.Collect(retry.New(retry.Config{}, m).Stream(t.Context(), llm.Request{}), nil)
	if asked != 1 || got.Message.Text != "half" || !errors.Is(err, llm.ErrUnavailable) {
		t.Errorf("%q, %v after %d requests; want the half and its error after one", got.Message.Text, err, asked)
	}
}
