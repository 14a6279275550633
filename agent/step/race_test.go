package step_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/step"
)

// racer is a step that takes a time, gives its name or an error, and notes what became of it.
type racer struct {
	name  string
	takes time.Duration
	err   error
	// heedless racers go on when they are cancelled, and slow ones take a second to end then.
	heedless, slow bool
}

// log is who was cancelled and when who ended.
type log struct {
	mu        sync.Mutex
	cancelled map[string]bool
	ended     map[string]time.Duration
}

func (r racer) on(l *log) step.Step[time.Time, string] {
	return step.Func(func(ctx context.Context, begun time.Time) (string, error) {
		err := r.run(ctx)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ended[r.name] = time.Since(begun)
		if ctx.Err() != nil {
			l.cancelled[r.name] = true
		}
		return r.name, err
	})
}

func (r racer) run(ctx context.Context) error {
	if r.heedless {
		time.Sleep(r.takes)
		return r.err
	}
	select {
	case <-time.After(r.takes):
		return r.err
	case <-ctx.Done():
		if r.slow {
			time.Sleep(time.Second)
		}
		return ctx.Err()
	}
}

var (
	errA = errors.New("a is down")
	errB = errors.New("b is down")
)

// Who is cancelled, who is waited for, which error: everybody who began has ended when Run returns.
func TestRaceAndParallelCancelAndWait(t *testing.T) {
	const s = time.Second
	type result struct {
		Got       string
		Values    []string
		Err       string
		Took      time.Duration
		Cancelled map[string]bool
		Ended     map[string]time.Duration
	}
	for name, c := range map[string]struct {
		racers  []racer
		timeout time.Duration // 0 = none
		race    result        // of Race
		all     result        // of Parallel
	}{
		"all succeed": {
			racers: []racer{{name: "a", takes: 3 * s}, {name: "b", takes: s}, {name: "c", takes: 2 * s}},
			race: result{Got: "b", Took: s, Cancelled: map[string]bool{"a": true, "c": true},
				Ended: map[string]time.Duration{"a": s, "b": s, "c": s}},
			all: result{Values: []string{"b", "c", "a"}, Took: 3 * s, Ended: map[string]time.Duration{"a": 3 * s, "b": s, "c": 2 * s}},
		},
		"the first fails": {
			racers: []racer{{name: "a", takes: s, err: errA}, {name: "b", takes: 2 * s}},
			race:   result{Got: "b", Took: 2 * s, Ended: map[string]time.Duration{"a": s, "b": 2 * s}},
			all:    result{Values: []string{"b"}, Took: 2 * s, Ended: map[string]time.Duration{"a": s, "b": 2 * s}},
		},
		"all fail": {
			racers: []racer{{name: "a", takes: 2 * s, err: errA}, {name: "b", takes: s, err: errB}},
			race:   result{Err: "step 0: a is down\nstep 1: b is down", Took: 2 * s, Ended: map[string]time.Duration{"a": 2 * s, "b": s}},
			all:    result{Err: "all steps failed: step 0: a is down\nstep 1: b is down", Took: 2 * s, Ended: map[string]time.Duration{"a": 2 * s, "b": s}},
		},
		"a loser is slow to end": {
			racers: []racer{{name: "a", takes: s}, {name: "b", takes: 9 * s, slow: true}},
			race: result{Got: "a", Took: 2 * s, Cancelled: map[string]bool{"b": true},
				Ended: map[string]time.Duration{"a": s, "b": 2 * s}},
			all: result{Values: []string{"a", "b"}, Took: 9 * s, Ended: map[string]time.Duration{"a": s, "b": 9 * s}},
		},
		"a loser is heedless": {
			racers: []racer{{name: "a", takes: s}, {name: "b", takes: 5 * s, heedless: true}},
			race: result{Got: "a", Took: 5 * s, Cancelled: map[string]bool{"b": true},
				Ended: map[string]time.Duration{"a": s, "b": 5 * s}},
			all: result{Values: []string{"a", "b"}, Took: 5 * s, Ended: map[string]time.Duration{"a": s, "b": 5 * s}},
		},
		"the time is over": {
			racers:  []racer{{name: "a", takes: s, err: errA}, {name: "b", takes: 9 * s}},
			timeout: 2 * s,
			race: result{Err: "not done in 2s: context deadline exceeded", Took: 2 * s, Cancelled: map[string]bool{"b": true},
				Ended: map[string]time.Duration{"a": s, "b": 2 * s}},
			all: result{Err: "not done in 2s: context deadline exceeded", Took: 2 * s, Cancelled: map[string]bool{"b": true},
				Ended: map[string]time.Duration{"a": s, "b": 2 * s}},
		},
		"the time is over, and one succeeds late": {
			racers:  []racer{{name: "a", takes: 5 * s, heedless: true}, {name: "b", takes: 9 * s}},
			timeout: 2 * s,
			race: result{Err: "not done in 2s: context deadline exceeded", Took: 5 * s, Cancelled: map[string]bool{"a": true, "b": true},
				Ended: map[string]time.Duration{"a": 5 * s, "b": 2 * s}},
			all: result{Err: "not done in 2s: context deadline exceeded", Took: 5 * s, Cancelled: map[string]bool{"a": true, "b": true},
				Ended: map[string]time.Duration{"a": 5 * s, "b": 2 * s}},
		},
	} {
		for _, kind := range []string{"Race", "Parallel"} {
			t.Run(kind+": "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := &log{cancelled: map[string]bool{}, ended: map[string]time.Duration{}}
					var steps []step.Step[time.Time, string]
					for _, r := range c.racers {
						steps = append(steps, r.on(l))
					}
					want, got, begun := c.race, result{}, time.Now()
					var err error
					if kind == "Race" {
						got.Got, err = timed(c.timeout, step.Race(steps...)).Run(t.Context(), begun)
						if err != nil {
							got.Got = ""
						}
					} else {
						want = c.all
						var all step.Results[string]
						all, err = timed(c.timeout, step.Parallel(0, steps...)).Run(t.Context(), begun)
						got.Values = all.Values()
					}
					got.Took, got.Cancelled, got.Ended = time.Since(begun), l.cancelled, l.ended
					if err != nil {
						got.Err = err.Error()
					}
					if want.Cancelled == nil {
						want.Cancelled = map[string]bool{}
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("want -, got +:\n%s", diff)
					}
				})
			})
		}
	}
}

func timed[In, Out any](d time.Duration, s step.Step[In, Out]) step.Step[In, Out] {
	if d == 0 {
		return s
	}
	return step.Timeout(d, s)
}

func TestErrorsOfARaceAreAllThere(t *testing.T) {
	_, err := step.Race(fails[int, int](errA), fails[int, int](errB)).Run(t.Context(), 1)
	if !errors.Is(err, errA) || !errors.Is(err, errB) {
		t.Errorf("got %v", err)
	}
	if _, err := step.Race[int, int]().Run(t.Context(), 1); !errors.Is(err, step.ErrNoSteps) {
		t.Errorf("of nobody: %v", err)
	}
}

func TestRaceDoesNotBeginWhenItsContextHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errTest)
	ran := false
	if _, err := step.Race(step.Transform(func(int) int { ran = true; return 1 })).Run(ctx, 1); err != errTest || ran {
		t.Errorf("got %v, ran: %v", err, ran)
	}
}

func TestRaceWhoseContextEndsFailsWithItsCause(t *testing.T) {
	for name, late := range map[string]error{"a late success": nil, "late failures": errA} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			l := &log{cancelled: map[string]bool{}, ended: map[string]time.Duration{}}
			s := step.Race(racer{name: "a", takes: 5 * time.Second, err: late, heedless: true}.on(l),
				racer{name: "b", takes: time.Minute}.on(l))
			time.AfterFunc(time.Second, func() { cancel(errTest) })
			if _, err := s.Run(ctx, time.Now()); err != errTest || !l.cancelled["a"] || !l.cancelled["b"] || l.ended["a"] != 5*time.Second {
				t.Errorf("%s: got %v; %v cancelled, %v ended", name, err, l.cancelled, l.ended)
			}
		})
	}
}
