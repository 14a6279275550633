package term_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"symbio/internal/actor/term"
)

var errWhy = errors.New("why")

// ways are how a Term can be watched; each returns what it saw at the end.
var ways = map[string]func(*term.Term) (err, cause error){
	"ends": func(t *term.Term) (error, error) {
		parent, own := term.Ends(t)
		select {
		case <-parent:
		case <-own:
		}
		return t.Err(), context.Cause(t)
	},
	"done": func(t *term.Term) (error, error) {
		<-t.Done()
		return t.Err(), context.Cause(t)
	},
	"child": func(t *term.Term) (error, error) {
		child, cancel := context.WithCancel(t)
		defer cancel()
		<-child.Done()
		return child.Err(), context.Cause(child)
	},
	"grandchild": func(t *term.Term) (error, error) {
		child, cancel := context.WithTimeout(context.WithValue(t, errWhy, errWhy), time.Hour)
		defer cancel()
		parent, own := term.Ends(term.New(child))
		select {
		case <-parent:
		case <-own:
		}
		return child.Err(), context.Cause(child)
	},
}

func TestTermReportsItsEnd(t *testing.T) {
	endings := map[string]struct {
		begin      func(*term.Set, context.Context) *term.Term
		end        func(*term.Term, *term.Set, context.CancelCauseFunc)
		err, cause error
		after      time.Duration
	}{
		"deadline": {
			begin: func(s *term.Set, ctx context.Context) *term.Term { return s.Begin(ctx, 3*time.Second) },
			err:   context.DeadlineExceeded, cause: context.DeadlineExceeded, after: 3 * time.Second,
		},
		"its parent's deadline": {
			begin: func(s *term.Set, ctx context.Context) *term.Term {
				ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
				context.AfterFunc(ctx, cancel)
				return s.Begin(ctx, 3*time.Second)
			},
			err: context.DeadlineExceeded, cause: context.DeadlineExceeded, after: 2 * time.Second,
		},
		"close": {
			begin: func(s *term.Set, ctx context.Context) *term.Term { return s.Begin(ctx, time.Hour) },
			end:   func(t *term.Term, _ *term.Set, _ context.CancelCauseFunc) { t.Close() },
			err:   context.Canceled, cause: context.Canceled,
		},
		"end": {
			begin: func(_ *term.Set, ctx context.Context) *term.Term { return term.New(ctx) },
			end:   func(t *term.Term, _ *term.Set, _ context.CancelCauseFunc) { t.End(errWhy); t.Close() },
			err:   context.Canceled, cause: errWhy,
		},
		"the end of the set": {
			begin: func(s *term.Set, ctx context.Context) *term.Term { return s.Begin(ctx, time.Hour) },
			end:   func(_ *term.Term, s *term.Set, _ context.CancelCauseFunc) { s.End(errWhy) },
			err:   context.Canceled, cause: errWhy,
		},
		"its parent's end": {
			begin: func(s *term.Set, ctx context.Context) *term.Term { return s.Begin(ctx, time.Hour) },
			end:   func(_ *term.Term, _ *term.Set, parent context.CancelCauseFunc) { parent(errWhy) },
			err:   context.Canceled, cause: errWhy,
		},
	}
	for name, e := range endings {
		for way, watch := range ways {
			t.Run(name+" by "+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					parent, cancel := context.WithCancelCause(context.Background())
					defer cancel(nil)
					var s term.Set
					began := time.Now()
					one := e.begin(&s, parent)
					defer one.Close()
					if one.Err() != nil || context.Cause(one) != nil {
						t.Fatalf("it begins with %v", one.Err())
					}
					var err, cause error
					var watching sync.WaitGroup
					watching.Go(func() { err, cause = watch(one) })
					synctest.Wait()
					if e.end != nil {
						e.end(one, &s, cancel)
					}
					watching.Wait()
					if err != e.err || cause != e.cause || time.Since(began) != e.after {
						t.Errorf("after %v: got %v because of %v; want %v because of %v after %v", time.Since(began), err, cause, e.err, e.cause, e.after)
					}
					// Who looks only now sees the same.
					if err, cause := watch(one); err != e.err || cause != e.cause {
						t.Errorf("later: got %v because of %v", err, cause)
					}
				})
			})
		}
	}
}

func TestSetUsesOneTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s term.Set
		began := time.Now()
		var watching sync.WaitGroup
		for _, in := range []time.Duration{5, 1, 3, 2, 4, 1, 3600, 2} {
			one := s.Begin(context.Background(), in*time.Second)
			if in == 4 {
				one.Close() // what is over is not waited for, nor in the way
				continue
			}
			watching.Go(func() {
				_, own := term.Ends(one)
				<-own
				if took := time.Since(began); in < 10 && (took != in*time.Second || one.Err() != context.DeadlineExceeded) {
					t.Errorf("the Term of %d s ended after %v with %v", in, took, one.Err())
				}
			})
		}
		time.Sleep(time.Minute)
		s.End(context.Canceled)
		watching.Wait()
		if late := s.Begin(context.Background(), time.Hour); late.Err() != context.Canceled {
			t.Errorf("begun after the end: got %v", late.Err())
		}
	})
}

func TestTermChildNeedsNoGoroutine(t *testing.T) {
	one := term.New(t.Context())
	defer one.Close()
	before := runtime.NumGoroutine()
	for range 100 {
		_, cancel := context.WithCancel(one)
		defer cancel()
	}
	if n := runtime.NumGoroutine(); n > before+50 { // it counts 32 too many now and then
		t.Errorf("100 children came with %d goroutines", n-before)
	}
}

// What ends at once from many sides ends once; this is for the race detector.
func TestConcurrentEndsEndOnce(t *testing.T) {
	for range 200 {
		var s term.Set
		parent, cancel := context.WithCancel(context.Background())
		one := s.Begin(parent, time.Microsecond)
		var all sync.WaitGroup
		for _, f := range []func(){cancel, one.Close, func() { s.End(errWhy) }, func() { one.End(errWhy) }, func() { <-one.Done() }, func() {
			parent, own := term.Ends(one)
			select {
			case <-parent:
			case <-own:
			}
		}} {
			all.Go(f)
		}
		all.Wait()
		if one.Err() == nil {
			t.Fatal("it goes on")
		}
	}
}

// Who asks for the ends of a Term that has ended already does not wait.
func TestEndsOfATermThatHasEnded(t *testing.T) {
	for name, end := range map[string]func(*term.Term){"close": (*term.Term).Close, "end": func(one *term.Term) { one.End(errWhy) }} {
		one := term.New(context.Background())
		end(one)
		_, own := term.Ends(one)
		select {
		case <-own:
		default:
			t.Errorf("%s: it goes on", name)
		}
		one.Close()
	}
}

// A Term that ends at a time says so with its cause, whichever way it is asked, and its children end with it.
func TestUntilEndsAtItsTime(t *testing.T) {
	late := errors.New("too late")
	for name, ask := range map[string]func(ctx context.Context){
		"done": func(ctx context.Context) { <-ctx.Done() },
		"err":  func(ctx context.Context) { time.Sleep(time.Minute) },
		"ends": func(ctx context.Context) {
			parent, own := term.Ends(ctx)
			select {
			case <-parent:
			case <-own:
			}
		},
		"child": func(ctx context.Context) {
			child, cancel := context.WithCancel(ctx)
			defer cancel()
			<-child.Done()
			if context.Cause(child) != late {
				t.Errorf("the child ended with %v", context.Cause(child))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				ctx := term.Until(t.Context(), begun.Add(time.Minute), late)
				defer ctx.Close()
				if at, ok := ctx.Deadline(); ctx.Err() != nil || !ok || at.Sub(begun) != time.Minute {
					t.Errorf("at its beginning: %v, %v", ctx.Err(), at)
				}
				ask(ctx)
				if took := time.Since(begun); took != time.Minute || !errors.Is(ctx.Err(), context.DeadlineExceeded) || context.Cause(ctx) != late {
					t.Errorf("after %v: %v, %v", took, ctx.Err(), context.Cause(ctx))
				}
			})
		})
	}
	ctx := term.Until(t.Context(), time.Now().Add(time.Hour), late)
	ctx.Close()
	ctx.Close()
	if !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("closed: %v", ctx.Err())
	}
}
