package actor_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/actor"
)

// inBubble runs test on a System with time of its own, and fails when anything is left running.
func inBubble(t *testing.T, cfg actor.Config, test func(t *testing.T, s *actor.System)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := actor.NewSystem(cfg)
		test(t, s)
		if err := s.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
}

func spawn(t *testing.T, s *actor.System, p actor.Props) *actor.Ref {
	t.Helper()
	r, err := s.Spawn(p)
	if err != nil {
		t.Fatalf("Spawn: %v", err)
	}
	return r
}

// always returns a Props.New that makes the same behavior.
func always(f actor.Func) func() (actor.Behavior, error) {
	return func() (actor.Behavior, error) { return f, nil }
}

// worker is a behavior that says what it has begun and holds each message until it is let go on.
type worker struct {
	began   chan any
	proceed chan struct{}
}

func newWorker() *worker { return &worker{make(chan any, 100), make(chan struct{})} }

func (w *worker) new() (actor.Behavior, error) { return w, nil }

func (w *worker) Receive(_ context.Context, msg any) (any, error) {
	w.began <- msg
	<-w.proceed
	return msg, nil
}

type result struct {
	value any
	err   error
}

// ask asks on a goroutine of its own.
func ask(ctx context.Context, r *actor.Ref, msg any) <-chan result {
	c := make(chan result, 1)
	go func() {
		v, err := r.Ask(ctx, msg)
		c <- result{v, err}
	}()
	synctest.Wait()
	return c
}

// answered returns the result that must be there already.
func answered(t *testing.T, c <-chan result) result {
	t.Helper()
	synctest.Wait()
	select {
	case r := <-c:
		return r
	default:
		t.Fatal("the ask still waits")
		return result{}
	}
}

// pass lets time pass, and what it brings about happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func waits(t *testing.T, c <-chan result) {
	t.Helper()
	synctest.Wait()
	select {
	case r := <-c:
		t.Fatalf("got %v, %v; want it to wait", r.value, r.err)
	default:
	}
}

func wantErr(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("got error %v, want %v", got, want)
	}
}

func TestAskReturnsWhatReceiveReturned(t *testing.T) {
	inBubble(t, actor.Config{}, func(t *testing.T, s *actor.System) {
		problem := errors.New("no milk")
		r := spawn(t, s, actor.Props{New: always(func(_ context.Context, msg any) (any, error) {
			return fmt.Sprint("re: ", msg), problem
		})})
		got, err := r.Ask(t.Context(), "tea")
		if got != "re: tea" || err != problem {
			t.Errorf("got %v, %v; want re: tea, %v itself", got, err, problem)
		}
		if got, err = r.Ask(t.Context(), "again"); got != "re: again" {
			t.Errorf("an error of Receive must not stop the actor; got %v, %v", got, err)
		}
	})
}

func TestReceiveSeesTheAskersContext(t *testing.T) {
	inBubble(t, actor.Config{}, func(t *testing.T, s *actor.System) {
		type key struct{}
		why := errors.New("asker went home")
		ended := make(chan error, 1)
		r := spawn(t, s, actor.Props{New: always(func(ctx context.Context, _ any) (any, error) {
			deadline, _ := ctx.Deadline()
			if got := time.Until(deadline); got != time.Minute {
				t.Errorf("got %v until the deadline, want 1m", got)
			}
			if ctx.Value(key{}) != "v" {
				t.Error("the asker's values are missing")
			}
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return nil, nil
		})})
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "v"), time.Minute)
		defer cancel()
		ctx, leave := context.WithCancelCause(ctx)
		a := ask(ctx, r, "work")
		leave(why)
		wantErr(t, answered(t, a).err, why)
		wantErr(t, <-ended, why)
	})
}

func TestReceivesContextEndsWithReceive(t *testing.T) {
	inBubble(t, actor.Config{}, func(t *testing.T, s *actor.System) {
		r := spawn(t, s, actor.Props{New: always(func(ctx context.Context, _ any) (any, error) { return ctx, nil })})
		ctx, err := r.Ask(t.Context(), "your context")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if ctx.(context.Context).Err() == nil {
			t.Error("the context goes on after Receive")
		}
	})
}

func TestQueuedMessageWhoseContextEndedIsSkipped(t *testing.T) {
	inBubble(t, actor.Config{}, func(t *testing.T, s *actor.System) {
		w := newWorker()
		r := spawn(t, s, actor.Props{New: w.new})
		first := ask(t.Context(), r, "first")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		late := ask(ctx, r, "late")
		last := ask(t.Context(), r, "last")
		pass(2 * time.Second)
		wantErr(t, answered(t, late).err, context.DeadlineExceeded)
		close(w.proceed)
		answered(t, first)
		answered(t, last)
		close(w.began)
		var got []any
		for msg := range w.began {
			got = append(got, msg)
		}
		if diff := cmp.Diff([]any{"first", "last"}, got); diff != "" {
			t.Errorf("messages that Receive saw (-want +got):\n%s", diff)
		}
	})
}

func TestAskWithAnEndedContextSendsNothing(t *testing.T) {
	inBubble(t, actor.Config{}, func(t *testing.T, s *actor.System) {
		r := spawn(t, s, actor.Props{New: always(func(context.Context, any) (any, error) {
			t.Error("Receive was called")
			return nil, nil
		})})
		why := errors.New("too late")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		_, err := r.Ask(ctx, "x")
		wantErr(t, err, why)
	})
}

func TestGuardWithoutRefusal(t *testing.T) {
	for _, r := range []*actor.Ref{nil, {}} {
		_, err := r.Ask(t.Context(), "x")
		wantErr(t, err, actor.ErrNoActor)
		wantErr(t, r.Tell("x"), actor.ErrNoActor)
		wantErr(t, r.Stop(t.Context()), actor.ErrNoActor)
	}
}

func TestMessagesToAnEndedActorAreRefused(t *testing.T) {
	inBubble(t, actor.Config{}, func(t *testing.T, s *actor.System) {
		r := spawn(t, s, actor.Props{New: always(echo)})
		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err := r.Ask(t.Context(), "hello?")
		wantErr(t, err, actor.ErrNoActor)
		wantErr(t, err, actor.ErrStopped)
		wantErr(t, r.Tell("hello?"), actor.ErrNoActor)
	})
}

func TestFullMailboxRefusesAtOnce(t *testing.T) {
	for _, test := range []struct {
		name          string
		system, props int
		want          int
	}{
		{"the actor's limit", 7, 3, 3},
		{"the system's limit", 7, 0, 7},
		{"the default limit", 0, 0, 1024},
		{"a limit of one", 0, 1, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, actor.Config{Mailbox: test.system}, func(t *testing.T, s *actor.System) {
				w := newWorker()
				w.began = make(chan any, 2000)
				r := spawn(t, s, actor.Props{New: w.new, Mailbox: test.props})
				first := ask(t.Context(), r, "in flight")
				for i := range test.want {
					if err := r.Tell(i); err != nil {
						t.Fatalf("message %d of %d: %v", i+1, test.want, err)
					}
				}
				start := time.Now()
				_, err := r.Ask(t.Context(), "one too many")
				wantErr(t, err, actor.ErrBusy)
				wantErr(t, r.Tell("one too many"), actor.ErrBusy)
				if d := time.Since(start); d != 0 {
					t.Errorf("the refusal took %v", d)
				}
				close(w.proceed)
				answered(t, first)
				if v, err := r.Ask(t.Context(), "room again"); v != "room again" || err != nil {
					t.Errorf("got %v, %v after the queue was worked off", v, err)
				}
			})
		})
	}
}

func TestMailboxHoldsItsLimitUnderContention(t *testing.T) {
	inBubble(t, actor.Config{}, func(t *testing.T, s *actor.System) {
		w := newWorker()
		w.began = make(chan any, 2000)
		r := spawn(t, s, actor.Props{New: w.new, Mailbox: 100})
		first := ask(t.Context(), r, "in flight")
		var taken, refused atomic.Int64
		var rivals sync.WaitGroup
		for range 50 {
			rivals.Go(func() {
				for range 20 {
					switch err := r.Tell("x"); {
					case err == nil:
						taken.Add(1)
					case errors.Is(err, actor.ErrBusy):
						refused.Add(1)
					default:
						t.Errorf("Tell: %v", err)
					}
				}
			})
		}
		rivals.Wait()
		if taken.Load() != 100 || refused.Load() != 900 {
			t.Errorf("got %d taken and %d refused, want 100 and 900", taken.Load(), refused.Load())
		}
		close(w.proceed)
		answered(t, first)
		if got := len(w.began); got != 101 {
			t.Errorf("Receive saw %d messages, want 101", got)
		}
	})
}

func TestMessagesOfOneSenderKeepTheirOrder(t *testing.T) {
	inBubble(t, actor.Config{Mailbox: 5000, Restarts: 100}, func(t *testing.T, s *actor.System) {
		var seen []int
		r := spawn(t, s, actor.Props{New: always(func(_ context.Context, msg any) (any, error) {
			seen = append(seen, msg.(int))
			if msg.(int)%100 == 50 {
				panic("now and then")
			}
			return nil, nil
		})})
		var want []int
		for i := range 1000 {
			want = append(want, i)
			if err := r.Tell(i); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.Ask(t.Context(), 1000); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(append(want, 1000), seen); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}
