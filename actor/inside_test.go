package actor

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

// What is tested here lasts an instant, too short to be met from outside.

func TestGateNeverExceedsItsLimit(t *testing.T) {
	for range 300 {
		g := gate{limit: 500}
		var in atomic.Int32
		var rivals sync.WaitGroup
		for range 4 {
			rivals.Go(func() {
				for g.acquire() == nil {
					in.Add(1)
				}
			})
		}
		rivals.Wait()
		if got := in.Load(); got != 500 {
			t.Fatalf("%d came in, want 500", got)
		}
	}
}

func TestClosedGateOnlyEmpties(t *testing.T) {
	g := gate{limit: 2}
	for range 2 {
		if err := g.acquire(); err != nil {
			t.Fatal(err)
		}
	}
	if !g.close() || g.close() {
		t.Error("want the first close to be the one that closed, and only it")
	}
	if err := g.acquire(); err != ErrStopped {
		t.Errorf("enter: got %v, want ErrStopped rather than ErrBusy", err)
	}
	if left := g.release(); left != 1 || g.empty() {
		t.Errorf("got %d left, empty %v; want 1, false", left, g.empty())
	}
	if left := g.release(); left != 0 || !g.empty() || !g.closed() {
		t.Errorf("got %d left, empty %v, closed %v; want 0, true, true", left, g.empty(), g.closed())
	}
}

func TestMessageThatBeginsWhileItsActorIsKilledIsCancelled(t *testing.T) {
	s := NewSystem(Config{})
	r := s.newRef(Props{})
	r.behavior = Func(func(ctx context.Context, _ any) (any, error) { return nil, context.Cause(ctx) })
	r.kill()
	c := &call{ref: r, ctx: t.Context(), answer: make(chan outcome, 1)}
	r.receive(c, func(err error) { t.Error(err) })
	if o := <-c.answer; !errors.Is(o.err, ErrStopped) {
		t.Errorf("Receive's context ended with %v, want ErrStopped", o.err)
	}
}
