package actor_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"symbio/actor"
)

// ending is a Props.Stopped that remembers.
type ending struct {
	mu   sync.Mutex
	whys []error // guarded by mu
}

func (e *ending) stopped(why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.whys = append(e.whys, why)
}

// notYet fails the test when the actor has ended.
func (e *ending) notYet(t *testing.T) {
	t.Helper()
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.whys) != 0 {
		t.Error("Stopped was called while Receive runs")
	}
}

// once fails the test unless the actor has ended exactly once, and returns why.
func (e *ending) once(t *testing.T) error {
	t.Helper()
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.whys) != 1 {
		t.Fatalf("Stopped was called %d times, want once", len(e.whys))
	}
	return e.whys[0]
}

// stop stops on a goroutine of its own.
func stop(ctx context.Context, r *actor.Ref) <-chan result {
	c := make(chan result, 1)
	go func() { c <- result{nil, r.Stop(ctx)} }()
	synctest.Wait()
	return c
}

func TestStopLetsTheMessageInFlightFinishAndAnswersTheQueued(t *testing.T) {
	inBubble(t, actor.Config{}, func(t *testing.T, s *actor.System) {
		w, end := newWorker(), &ending{}
		r := spawn(t, s, actor.Props{New: w.new, Stopped: end.stopped})
		flying := ask(t.Context(), r, "in flight")
		queued := ask(t.Context(), r, "queued")
		if err := r.Tell("queued too"); err != nil {
			t.Fatal(err)
		}
		stopped := stop(t.Context(), r)

		wantErr(t, answered(t, queued).err, actor.ErrStopped) // though the one in flight still works
		_, err := r.Ask(t.Context(), "new")
		wantErr(t, err, actor.ErrStopped)
		wantErr(t, r.Tell("new"), actor.ErrStopped)
		waits(t, flying)
		waits(t, stopped)
		end.notYet(t)

		close(w.proceed)
		if got := answered(t, flying); got.value != "in flight" || got.err != nil {
			t.Errorf("the one in flight got %v, %v", got.value, got.err)
		}
		if err := answered(t, stopped).err; err != nil {
			t.Errorf("Stop: %v", err)
		}
		if why := end.once(t); why != nil {
			t.Errorf("Stopped got %v, want nil", why)
		}
		if len(w.began) != 1 {
			t.Errorf("Receive saw %d messages, want one", len(w.began))
		}
	})
}

func TestStopCancelsTheMessageInFlightWhenItsContextEnds(t *testing.T) {
	inBubble(t, actor.Config{}, func(t *testing.T, s *actor.System) {
		end, cause := &ending{}, make(chan error, 1)
		r := spawn(t, s, actor.Props{Stopped: end.stopped, New: always(func(ctx context.Context, _ any) (any, error) {
			<-ctx.Done()
			cause <- context.Cause(ctx)
			time.Sleep(time.Minute) // to tidy up
			return nil, ctx.Err()
		})})
		flying := ask(t.Context(), r, "long work")
		why := errors.New("cannot wait")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer cancel()
		start := time.Now()
		wantErr(t, r.Stop(ctx), why)
		if d := time.Since(start); d != time.Second {
			t.Errorf("Stop took %v, want 1s", d)
		}
		wantErr(t, <-cause, actor.ErrStopped)
		waits(t, flying)
		end.notYet(t)
		pass(time.Minute)
		wantErr(t, answered(t, flying).err, actor.ErrStopped)
		if why := end.once(t); why != nil {
			t.Errorf("Stopped got %v, want nil", why)
		}
	})
}

func TestStopIsBoundedWhileARestartBlocks(t *testing.T) {
	inBubble(t, actor.Config{}, func(t *testing.T, s *actor.System) {
		proceed := make(chan struct{})
		var made atomic.Int32
		r := spawn(t, s, actor.Props{New: func() (actor.Behavior, error) {
			if made.Add(1) > 1 {
				<-proceed
			}
			return actor.Func(func(context.Context, any) (any, error) { panic("always") }), nil
		}})
		_, err := r.Ask(t.Context(), "x")
		wantErr(t, err, actor.ErrPanicked)
		pass(time.Second) // New of the restart blocks
		queued := ask(t.Context(), r, "queued")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantErr(t, r.Stop(ctx), context.DeadlineExceeded)
		wantErr(t, answered(t, queued).err, actor.ErrStopped)
		close(proceed)
		if err := r.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestStopMayBeCalledOftenAndAtOnce(t *testing.T) {
	inBubble(t, actor.Config{}, func(t *testing.T, s *actor.System) {
		w, end := newWorker(), &ending{}
		r := spawn(t, s, actor.Props{New: w.new, Stopped: end.stopped})
		flying := ask(t.Context(), r, "in flight")
		var stops []<-chan result
		for range 10 {
			stops = append(stops, stop(t.Context(), r))
		}
		close(w.proceed)
		answered(t, flying)
		for _, c := range stops {
			if err := answered(t, c).err; err != nil {
				t.Errorf("Stop: %v", err)
			}
		}
		if err := r.Stop(t.Context()); err != nil {
			t.Errorf("Stop of an ended actor: %v", err)
		}
		end.once(t)
	})
}

func TestStopFromTheActorsOwnReceiveWaitsNoLongerThanItsContext(t *testing.T) {
	inBubble(t, actor.Config{}, func(t *testing.T, s *actor.System) {
		var r *actor.Ref
		r = spawn(t, s, actor.Props{Name: "ann", New: always(func(ctx context.Context, _ any) (any, error) {
			limited, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return "goodbye", r.Stop(limited)
		})})
		got, err := r.Ask(t.Context(), "quit")
		wantErr(t, err, context.DeadlineExceeded)
		if got != "goodbye" {
			t.Errorf("got answer %v", got)
		}
		synctest.Wait()
		if _, ok := s.Lookup("ann"); ok {
			t.Error("the actor lives on")
		}
	})
}

func TestStopDuringBackOffAnswersQueueAndCancelsRestart(t *testing.T) {
	inBubble(t, actor.Config{BackOff: time.Hour, MaxBackOff: time.Hour}, func(t *testing.T, s *actor.System) {
		end := &ending{}
		made := 0
		r := spawn(t, s, actor.Props{Stopped: end.stopped, New: func() (actor.Behavior, error) {
			made++
			return actor.Func(func(context.Context, any) (any, error) { panic("x") }), nil
		}})
		_, err := r.Ask(t.Context(), "x")
		wantErr(t, err, actor.ErrPanicked)
		queued := ask(t.Context(), r, "queued")
		if err := r.Tell("queued too"); err != nil {
			t.Fatal(err)
		}
		waits(t, queued)
		start := time.Now()
		if err := r.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		wantErr(t, answered(t, queued).err, actor.ErrStopped)
		if time.Since(start) != 0 {
			t.Errorf("the end took %v", time.Since(start))
		}
		pass(3 * time.Hour)
		if made != 1 {
			t.Errorf("New was called %d times, want once", made)
		}
		if why := end.once(t); why != nil {
			t.Errorf("Stopped got %v, want nil", why)
		}
	})
}

func TestPanicWhileStoppingIsAnsweredAndNotRestarted(t *testing.T) {
	inBubble(t, actor.Config{}, func(t *testing.T, s *actor.System) {
		end, proceed := &ending{}, make(chan struct{})
		r := spawn(t, s, actor.Props{Stopped: end.stopped, New: always(func(context.Context, any) (any, error) {
			<-proceed
			panic("x")
		})})
		flying := ask(t.Context(), r, "x")
		queued := ask(t.Context(), r, "queued")
		stopped := stop(t.Context(), r)
		close(proceed)
		wantErr(t, answered(t, flying).err, actor.ErrPanicked)
		wantErr(t, answered(t, queued).err, actor.ErrStopped)
		if err := answered(t, stopped).err; err != nil {
			t.Error(err)
		}
		if why := end.once(t); why != nil {
			t.Errorf("Stopped got %v, want nil", why)
		}
		start := time.Now()
		if err := s.Shutdown(t.Context()); err != nil || time.Since(start) != 0 {
			t.Errorf("Shutdown took %v and returned %v; is a restart planned?", time.Since(start), err)
		}
	})
}

func TestPanicInStoppedIsContained(t *testing.T) {
	inBubble(t, actor.Config{}, func(t *testing.T, s *actor.System) {
		r := spawn(t, s, actor.Props{New: always(echo), Stopped: func(error) { panic("x") }})
		if err := r.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestShutdownStopsEveryActorSideBySide(t *testing.T) {
	inBubble(t, actor.Config{}, func(t *testing.T, s *actor.System) {
		var ended atomic.Int32
		const actors = 100
		var asks []<-chan result
		for range actors {
			r := spawn(t, s, actor.Props{
				New:     always(func(context.Context, any) (any, error) { time.Sleep(time.Second); return "done", nil }),
				Stopped: func(error) { time.Sleep(time.Second); ended.Add(1) },
			})
			asks = append(asks, ask(t.Context(), r, "work"))
		}
		start := time.Now()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d != 2*time.Second {
			t.Errorf("Shutdown took %v, want 2s", d)
		}
		if got := ended.Load(); got != actors {
			t.Errorf("Stopped was called %d times before Shutdown returned, want %d", got, actors)
		}
		for _, a := range asks {
			if got := answered(t, a); got.value != "done" || got.err != nil {
				t.Errorf("an ask in flight got %v, %v", got.value, got.err)
			}
		}
	})
}

func TestShutdownIsBoundedByItsContextAndMayBeCalledAgain(t *testing.T) {
	inBubble(t, actor.Config{}, func(t *testing.T, s *actor.System) {
		w := newWorker()
		stuck := spawn(t, s, actor.Props{New: w.new})
		polite := spawn(t, s, actor.Props{New: always(func(ctx context.Context, _ any) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})})
		stuckAsk, politeAsk := ask(t.Context(), stuck, "x"), ask(t.Context(), polite, "x")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantErr(t, s.Shutdown(ctx), context.DeadlineExceeded)
		wantErr(t, answered(t, politeAsk).err, actor.ErrStopped)
		waits(t, stuckAsk)

		again := make(chan error, 2)
		for range 2 {
			go func() { again <- s.Shutdown(context.Background()) }()
		}
		synctest.Wait()
		close(w.proceed)
		for range 2 {
			if err := <-again; err != nil {
				t.Errorf("Shutdown again: %v", err)
			}
		}
		answered(t, stuckAsk)
		_, err := stuck.Ask(t.Context(), "anybody?")
		wantErr(t, err, actor.ErrStopped)
	})
}

func TestShutdownCancelsRestarts(t *testing.T) {
	inBubble(t, actor.Config{BackOff: time.Hour, MaxBackOff: time.Hour}, func(t *testing.T, s *actor.System) {
		made := 0
		r := spawn(t, s, actor.Props{New: func() (actor.Behavior, error) {
			made++
			return actor.Func(func(context.Context, any) (any, error) { panic("x") }), nil
		}})
		_, err := r.Ask(t.Context(), "x")
		wantErr(t, err, actor.ErrPanicked)
		start := time.Now()
		if err := s.Shutdown(t.Context()); err != nil || time.Since(start) != 0 {
			t.Errorf("Shutdown took %v and returned %v", time.Since(start), err)
		}
		pass(3 * time.Hour)
		if made != 1 {
			t.Errorf("New was called %d times, want once", made)
		}
	})
}
