package step_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/step"
	"symbio/community"
)

// flaky fails until it is run for the n-th time.
type flaky struct {
	good int
	err  error
	at   []time.Duration // when it ran
	zero time.Time
}

func (f *flaky) Run(context.Context, string) (int, error) {
	f.at = append(f.at, time.Since(f.zero))
	if len(f.at) < f.good {
		return 0, f.err
	}
	return len(f.at), nil
}

func TestRetryTriesAgain(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		how  step.Again
		good int
		err  error
		want []time.Duration
		fail bool
	}{
		"at once good":         {step.Again{}, 1, errTest, []time.Duration{0}, false},
		"three times":          {step.Again{}, 3, errTest, []time.Duration{0, 100 * ms, 300 * ms}, false},
		"and no more":          {step.Again{}, 4, errTest, []time.Duration{0, 100 * ms, 300 * ms}, true},
		"as often as it says":  {step.Again{Tries: 2, Wait: time.Second}, 4, errTest, []time.Duration{0, time.Second}, true},
		"what a gate blocked":  {step.Again{}, 4, step.Block("no"), []time.Duration{0}, true},
		"what is denied":       {step.Again{}, 4, fmt.Errorf("x: %w", community.ErrDenied), []time.Duration{0}, true},
		"what is invalid":      {step.Again{}, 4, community.ErrInvalid, []time.Duration{0}, true},
		"what If wants":        {step.Again{If: func(err error) bool { return err == errTest }}, 2, errTest, []time.Duration{0, 100 * ms}, false},
		"what If does not":     {step.Again{If: func(err error) bool { return err != errTest }}, 2, errTest, []time.Duration{0}, true},
		"never over half min.": {step.Again{Tries: 4, Wait: 20 * time.Second}, 4, errTest, []time.Duration{0, 20 * time.Second, 50 * time.Second, 80 * time.Second}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &flaky{good: c.good, err: c.err, zero: time.Now()}
			got, err := step.Retry(c.how, f).Run(t.Context(), "")
			if c.fail && err != c.err || !c.fail && (err != nil || got != c.good) {
				t.Errorf("%s: got %d, %v", name, got, err)
			}
			if diff := cmp.Diff(c.want, f.at); diff != "" {
				t.Errorf("%s: tried at\n%s", name, diff)
			}
		})
	}
}

func TestRetryEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{good: 9, err: errTest, zero: time.Now()}
		_, err := step.Timeout(250*time.Millisecond, step.Retry(step.Again{Tries: 9}, f)).Run(t.Context(), "")
		if !errors.Is(err, context.DeadlineExceeded) || len(f.at) != 2 || time.Since(f.zero) != 250*time.Millisecond {
			t.Errorf("after %s and %d tries: %v", time.Since(f.zero), len(f.at), err)
		}
	})
}

func TestTimeoutEndsAStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := step.Func(func(ctx context.Context, d time.Duration) (string, error) {
			select {
			case <-time.After(d):
				return "done", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		})
		s := step.Timeout(2*time.Second, waits)
		if got := run(t, s, time.Second); got != "done" {
			t.Errorf("in time: %q", got)
		}
		begun := time.Now()
		_, err := s.Run(t.Context(), time.Minute)
		if !errors.Is(err, context.DeadlineExceeded) || err.Error() != "not done in 2s: context deadline exceeded" || time.Since(begun) != 2*time.Second {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
		// What is around it ends it, too, with its own reason.
		_, err = step.Timeout(time.Second, s).Run(t.Context(), time.Minute)
		if err == nil || err.Error() != "not done in 1s: context deadline exceeded" {
			t.Errorf("inside another: %v", err)
		}
	})
}

func TestCatchReplacesAnError(t *testing.T) {
	instead := func(_ context.Context, in int, err error) (int, error) { return -in, nil }
	if got := run(t, step.Catch(instead, fails[int, int](errTest)), 5); got != -5 {
		t.Errorf("Catch: %d", got)
	}
	if got := run(t, step.Catch(instead, step.Empty[int]()), 5); got != 5 {
		t.Errorf("Catch of a success: %d", got)
	}
}

func TestCatchLeavesTheEndOfTheContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errTest)
	ended := step.Func(func(ctx context.Context, _ int) (int, error) { return 0, ctx.Err() })
	asked := false
	_, err := step.Catch(func(context.Context, int, error) (int, error) { asked = true; return 1, nil }, ended).Run(ctx, 1)
	if !errors.Is(err, context.Canceled) || asked {
		t.Errorf("Catch: %v, asked: %v", err, asked)
	}
}

func TestMonitorIsToldOfEachRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		watch := func(in int, out string, err error, took time.Duration) {
			told = append(told, fmt.Sprint(in, " ", out, " ", err, " ", took))
		}
		s := step.Monitor(watch, step.Func(func(_ context.Context, in int) (string, error) {
			time.Sleep(time.Second)
			if in < 0 {
				return "", errTest
			}
			return "good", nil
		}))
		run(t, s, 1)
		if _, err := s.Run(t.Context(), -1); err != errTest {
			t.Errorf("got %v", err)
		}
		if diff := cmp.Diff([]string{"1 good <nil> 1s", "-1  the test's error 1s"}, told); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTraceNamesErrorsAndTellsSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var spans []step.Span
		takes := step.Func(func(context.Context, int) (int, error) { time.Sleep(time.Second); return 0, errTest })
		s := step.Trace("survey", step.Chain2(step.Trace("plan", step.Empty[int]()), step.Trace("read", takes)))
		if _, err := s.Run(t.Context(), 1); !errors.Is(err, errTest) || err.Error() != "survey: read: the test's error" {
			t.Errorf("without a tracer: %v", err)
		}
		_, err := step.With(step.Tracer(func(s step.Span) { spans = append(spans, s) }), s).Run(t.Context(), 1)
		if !errors.Is(err, errTest) || len(spans) != 3 {
			t.Fatalf("got %v, %d spans", err, len(spans))
		}
		plan, read, survey := spans[0], spans[1], spans[2]
		if plan.Name != "plan" || read.Name != "read" || survey.Name != "survey" {
			t.Errorf("in the order in which they end: %s, %s, %s", plan.Name, read.Name, survey.Name)
		}
		if plan.Parent != survey.ID || read.Parent != survey.ID || survey.Parent != "" || plan.Trace != survey.Trace ||
			plan.ID == read.ID || len(plan.Trace) != 32 || len(plan.ID) != 16 {
			t.Errorf("who is inside whom: %+v", spans)
		}
		if read.Took != time.Second || read.Err == nil || plan.Err != nil || plan.Took != 0 {
			t.Errorf("what became of them: %+v", spans)
		}
	})
}

func TestSpanBelongsToTheCallAroundIt(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	ctx := community.WithTrace(t.Context(), community.ParseTrace(parent, "vendor=1"))
	var span step.Span
	var inside community.Trace
	s := step.With(step.Tracer(func(s step.Span) { span = s }), step.Trace("x", step.Func(func(ctx context.Context, _ int) (int, error) {
		inside = community.TraceOf(ctx)
		return 0, nil
	})))
	if _, err := s.Run(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if span.Trace != "0af7651916cd43dd8448eb211c80319c" || span.Parent != "b7ad6b7169203331" {
		t.Errorf("the span: %+v", span)
	}
	if want := "00-" + span.Trace + "-" + span.ID + "-01"; inside.Parent() != want || inside.State() != "vendor=1" {
		t.Errorf("calls inside carry %s %s, want %s", inside.Parent(), inside.State(), want)
	}
}
