package actor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"symbio/actor"
)

// outcomes are how Posts ended, in order.
type outcomes chan error

func (o outcomes) done(_ any, err error) { o <- err }

func TestPostEndsOnceAsAnAskWould(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := actor.NewSystem(actor.Config{Mailbox: 4})
		defer s.Shutdown(context.Background())
		broken := errors.New("broken")
		release := make(chan bool)
		r, err := s.Spawn(actor.Props{New: func() (actor.Behavior, error) {
			return actor.Func(func(_ context.Context, msg any) (any, error) {
				switch msg {
				case "wait":
					<-release
				case "panic":
					panic("secret")
				case "fail":
					return nil, broken
				}
				return "answer", nil
			}), nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		over := make(outcomes, 16)
		late, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		post := func(ctx context.Context, msg any) error { return r.Post(ctx, msg, over.done) }
		if err := post(context.Background(), "wait"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for _, msg := range []string{"fail", "panic", "fine"} {
			if err := post(context.Background(), msg); err != nil {
				t.Fatal(err)
			}
		}
		if err := post(late, "late"); err != nil {
			t.Fatal(err)
		}
		if err := post(context.Background(), "one too many"); !errors.Is(err, actor.ErrBusy) {
			t.Errorf("a full mailbox: got %v", err)
		}
		<-late.Done()
		if err := post(late, "too late"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a context that has ended: got %v", err)
		}
		close(release)
		for i, want := range []error{nil, broken, actor.ErrPanicked, nil, context.DeadlineExceeded} {
			if got := <-over; !errors.Is(got, want) {
				t.Errorf("post %d: got %v, want %v", i, got, want)
			}
		}
		synctest.Wait()
		if len(over) > 0 {
			t.Errorf("%d outcomes too many, such as %v", len(over), <-over)
		}
	})
}

func TestQueuedPostsGetErrStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := actor.NewSystem(actor.Config{})
		r, err := s.Spawn(actor.Props{New: func() (actor.Behavior, error) {
			return actor.Func(func(ctx context.Context, _ any) (any, error) { <-ctx.Done(); return nil, ctx.Err() }), nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		over := make(outcomes, 8)
		for range 3 {
			if err := r.Post(context.Background(), "wait", over.done); err != nil {
				t.Fatal(err)
			}
		}
		soon, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = r.Stop(soon)
		for range 3 {
			if err := <-over; !errors.Is(err, actor.ErrStopped) {
				t.Errorf("got %v, want %v", err, actor.ErrStopped)
			}
		}
		if err := r.Post(context.Background(), "after", over.done); !errors.Is(err, actor.ErrStopped) {
			t.Errorf("after the end: got %v", err)
		}
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
