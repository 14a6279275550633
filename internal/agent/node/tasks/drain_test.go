package tasks_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"symbio/community"
	"symbio/internal/agent/node/tasks"
	symbiov1 "symbio/proto/symbio/v1"
)

// newGate returns a Gate whose parts count a stop.
func newGate(stops *atomic.Int32) *tasks.Gate {
	g := &tasks.Gate{Name: "kitchen"}
	g.Use(tasks.GateParts{Stop: func() { stops.Add(1) }})
	return g
}

func TestDrainWaitsForWork(t *testing.T) {
	for _, stop := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var stops atomic.Int32
			g := newGate(&stops)
			running := g.Counter(tasks.WorkCall, "text.count")
			running.Add(1)
			var states []*symbiov1.DrainState
			ended := make(chan error)
			go func() {
				ended <- g.Drain(t.Context(), &symbiov1.DrainRequest{Stop: stop}, func(s *symbiov1.DrainState) error {
					states = append(states, s)
					return nil
				})
			}()
			time.Sleep(time.Minute)
			synctest.Wait()
			if len(states) != 1 || states[0].GetRunning()[0].GetName() != "text.count" || !g.Draining.IsOn() || stops.Load() != 0 {
				t.Fatalf("with a call under way it sent %v, told others %t, stopped %d times", states, g.Draining.IsOn(), stops.Load())
			}
			if err := g.Check(); !errors.Is(err, community.ErrBusy) || !community.NotBegun(err) {
				t.Errorf("new work: %v, want busy", err)
			}
			running.Add(-1)
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if last := states[len(states)-1]; !last.GetDone() || stops.Load() != 0 == !stop {
				t.Errorf("at the end it sent %v and stopped %d times", last, stops.Load())
			}
		})
	}
}

func TestDrainIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stops atomic.Int32
		g := newGate(&stops)
		g.Counter(tasks.WorkAgent, "general").Add(1)
		ended := make(chan error)
		go func() {
			ended <- g.Drain(t.Context(), &symbiov1.DrainRequest{Stop: true}, func(*symbiov1.DrainState) error { return nil })
		}()
		time.Sleep(time.Second)
		var last *symbiov1.DrainState
		if err := g.Drain(t.Context(), &symbiov1.DrainRequest{Undo: true}, func(s *symbiov1.DrainState) error { last = s; return nil }); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, community.ErrStopped) {
			t.Errorf("the command that waits ends with %v", err)
		}
		if last.GetDraining() || g.Draining.IsOn() || g.Check() != nil || stops.Load() != 0 {
			t.Errorf("state %v, others are told %t, check %v, %d stops", last, g.Draining.IsOn(), g.Check(), stops.Load())
		}
	})
}

func TestDrainGoesOnWhenItsCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(new(atomic.Int32))
		g.Counter(tasks.WorkAgent, "general").Add(1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := g.Drain(ctx, &symbiov1.DrainRequest{}, func(*symbiov1.DrainState) error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if !g.Draining.IsOn() {
			t.Error("the node takes work again")
		}
	})
}

func TestControlCallsOfADrainingNode(t *testing.T) {
	g := newGate(new(atomic.Int32))
	call := func(method string) error {
		_, err := g.Unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/symbio.v1.Control/" + method}, func(context.Context, any) (any, error) {
			counted := method == "Spawn" || method == "Send"
			if got := len(g.Running()) == 1; got != counted {
				t.Errorf("%s is counted: %t", method, got)
			}
			return nil, nil
		})
		return err
	}
	for _, method := range []string{"Spawn", "Send", "Status"} {
		if err := call(method); err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_ = g.Drain(cancelled, &symbiov1.DrainRequest{}, func(*symbiov1.DrainState) error { return nil })
	for method, refused := range map[string]bool{"Spawn": true, "RunTask": true, "Converse": true, "Send": false, "Status": false} {
		if err := call(method); errors.Is(err, community.ErrBusy) != refused {
			t.Errorf("%s on a node that drains: %v", method, err)
		}
	}
	if left := g.Running(); len(left) != 0 {
		t.Errorf("still counted: %v", left)
	}
}
