package actor_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/actor"
)

// fragile panics at the message "panic", ends its goroutine at "exit", and else counts.
type fragile struct{ handled int }

func (f *fragile) Receive(_ context.Context, msg any) (any, error) {
	switch msg {
	case "panic":
		panic("the password is 1234")
	case "exit":
		runtime.Goexit()
	}
	f.handled++
	return f.handled, nil
}

func newFragile() (actor.Behavior, error) { return &fragile{}, nil }

func TestPanicIsAnsweredAtOnceAndRestarted(t *testing.T) {
	for _, way := range []string{"panic", "exit"} {
		t.Run(way, func(t *testing.T) {
			var log bytes.Buffer
			cfg := actor.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}
			inBubble(t, cfg, func(t *testing.T, s *actor.System) {
				r := spawn(t, s, actor.Props{Name: "ann", New: newFragile})
				if got, err := r.Ask(t.Context(), "count"); got != 1 || err != nil {
					t.Fatalf("got %v, %v", got, err)
				}
				bad := ask(t.Context(), r, way)
				queued := ask(t.Context(), r, "count")
				err := answered(t, bad).err
				wantErr(t, err, actor.ErrPanicked)
				var p *actor.PanicError
				if !errors.As(err, &p) || p.Actor != "ann" || !bytes.Contains(p.Stack, []byte("fragile")) {
					t.Errorf("got %#v, want a PanicError with the stack of fragile.Receive", err)
				}
				if strings.Contains(err.Error(), "password") {
					t.Errorf("the error tells what the panic said: %v", err)
				}
				waits(t, queued)
				pass(100 * time.Millisecond)
				if got := answered(t, queued); got.value != 1 || got.err != nil {
					t.Errorf("after the restart: got %v, %v; want 1 of a new behavior", got.value, got.err)
				}
			})
			if way == "panic" && !strings.Contains(log.String(), "the password is 1234") {
				t.Errorf("the log does not tell what the panic said:\n%s", &log)
			}
			if n := strings.Count(log.String(), "msg=\"actor failed\""); n != 1 {
				t.Errorf("the log tells of %d failures, want 1:\n%s", n, &log)
			}
		})
	}
}

func TestBackOffDoublesUntilTheActorIsStopped(t *testing.T) {
	inBubble(t, actor.Config{}, func(t *testing.T, s *actor.System) {
		start := time.Now()
		var made []time.Duration
		end := &ending{}
		r := spawn(t, s, actor.Props{Name: "ann", Stopped: end.stopped, New: func() (actor.Behavior, error) {
			made = append(made, time.Since(start))
			return &fragile{}, nil
		}})
		var asks []<-chan result
		for range 6 {
			asks = append(asks, ask(t.Context(), r, "panic"))
		}
		queued := ask(t.Context(), r, "count")
		if err := r.Tell("queued too"); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		for _, a := range asks {
			wantErr(t, answered(t, a).err, actor.ErrPanicked)
		}
		wantErr(t, answered(t, queued).err, actor.ErrStopped)
		const ms = time.Millisecond
		want := []time.Duration{0, 100 * ms, 300 * ms, 700 * ms, 1500 * ms, 3100 * ms}
		if diff := cmp.Diff(want, made); diff != "" {
			t.Errorf("starts (-want +got):\n%s", diff)
		}
		why := end.once(t)
		wantErr(t, why, actor.ErrFailing)
		wantErr(t, why, actor.ErrPanicked)
		if why != nil && (!strings.Contains(why.Error(), "6 failures within 1m") || strings.Contains(why.Error(), "password")) {
			t.Errorf("got %q, want the number, the time and nothing of the panic", why)
		}
		if _, ok := s.Lookup("ann"); ok {
			t.Error("the actor is still found")
		}
		if err := r.Stop(t.Context()); err != nil {
			t.Errorf("Stop: %v", err)
		}
	})
}

func TestBackOffHasALimit(t *testing.T) {
	cfg := actor.Config{Restarts: 6, BackOff: time.Second, MaxBackOff: 3 * time.Second}
	inBubble(t, cfg, func(t *testing.T, s *actor.System) {
		start := time.Now()
		var made []time.Duration
		r := spawn(t, s, actor.Props{New: func() (actor.Behavior, error) {
			made = append(made, time.Since(start))
			return &fragile{}, nil
		}})
		for range 4 {
			_, err := r.Ask(t.Context(), "panic")
			wantErr(t, err, actor.ErrPanicked)
		}
		pass(10 * time.Second)
		const s1 = time.Second
		if diff := cmp.Diff([]time.Duration{0, s1, 3 * s1, 6 * s1, 9 * s1}, made); diff != "" {
			t.Errorf("starts (-want +got):\n%s", diff)
		}
	})
}

func TestFailuresAreForgottenAfterWithin(t *testing.T) {
	inBubble(t, actor.Config{Restarts: 2, Within: time.Minute}, func(t *testing.T, s *actor.System) {
		r := spawn(t, s, actor.Props{New: newFragile})
		for range 20 {
			_, err := r.Ask(t.Context(), "panic")
			wantErr(t, err, actor.ErrPanicked)
			pass(31 * time.Second)
		}
		if _, err := r.Ask(t.Context(), "count"); err != nil {
			t.Errorf("two failures a minute are allowed, but: %v", err)
		}
	})
}

func TestNegativeNumberOfRestartsStopsAtTheFirstFailure(t *testing.T) {
	inBubble(t, actor.Config{Restarts: -1}, func(t *testing.T, s *actor.System) {
		end := &ending{}
		r := spawn(t, s, actor.Props{New: newFragile, Stopped: end.stopped})
		_, err := r.Ask(t.Context(), "panic")
		wantErr(t, err, actor.ErrPanicked)
		synctest.Wait()
		wantErr(t, end.once(t), actor.ErrFailing)
	})
}

func TestFailedRestartCountsAsAFailureAndKeepsTheMailbox(t *testing.T) {
	problem := errors.New("model is away")
	for _, test := range []struct {
		name     string
		recovers int // which New works again
		want     error
	}{
		{"and it recovers", 5, nil},
		{"and it does not", 99, actor.ErrStopped},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, actor.Config{}, func(t *testing.T, s *actor.System) {
				made, end := 0, &ending{}
				r := spawn(t, s, actor.Props{Stopped: end.stopped, New: func() (actor.Behavior, error) {
					made++
					switch {
					case made == 1 || made >= test.recovers:
						return &fragile{}, nil
					case made == 2:
						panic("in New")
					}
					return nil, problem
				}})
				_, err := r.Ask(t.Context(), "panic")
				wantErr(t, err, actor.ErrPanicked)
				queued := ask(t.Context(), r, "count")
				pass(time.Minute)
				got := answered(t, queued)
				wantErr(t, got.err, test.want)
				if test.want == nil {
					if got.value != 1 || made != test.recovers {
						t.Errorf("got %v after %d New, want 1 after %d", got.value, made, test.recovers)
					}
					return
				}
				why := end.once(t)
				wantErr(t, why, actor.ErrFailing)
				wantErr(t, why, problem)
				if made != 6 {
					t.Errorf("New was called %d times, want the first and 5 restarts", made)
				}
			})
		})
	}
}

func TestErrorOfReceiveIsNoFailure(t *testing.T) {
	inBubble(t, actor.Config{Restarts: -1}, func(t *testing.T, s *actor.System) {
		problem := errors.New("no")
		r := spawn(t, s, actor.Props{New: always(func(context.Context, any) (any, error) { return nil, problem })})
		for range 20 {
			_, err := r.Ask(t.Context(), "x")
			wantErr(t, err, problem)
		}
	})
}

func TestPostThatPanicsIsSupervisedToo(t *testing.T) {
	inBubble(t, actor.Config{}, func(t *testing.T, s *actor.System) {
		r := spawn(t, s, actor.Props{New: newFragile})
		if err := r.Tell("panic"); err != nil {
			t.Fatal(err)
		}
		if got, err := r.Ask(t.Context(), "count"); got != 1 || err != nil {
			t.Errorf("got %v, %v", got, err)
		}
	})
}
