package step_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/llm"
	"symbio/agent/step"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/security/permission"
)

const (
	asked    step.EventName = "asked"
	answered step.EventName = "answered"
)

// ear notes what it hears.
type ear struct {
	mu    sync.Mutex
	heard []string
}

func (e *ear) hear(ev step.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	text := fmt.Sprint(ev.Name, " ", ev.Payload)
	if ev.Missed > 0 {
		text = fmt.Sprint(text, " missed ", ev.Missed)
	}
	e.heard = append(e.heard, text)
}

func TestEventsAreEmittedBeforeAndAfterAStep(t *testing.T) {
	var bus step.EventBus
	var all, one ear
	bus.On(asked, all.hear)
	bus.On(answered, all.hear)
	bus.On(answered, one.hear)
	s := step.EmitBefore(asked, nil, step.EmitAfter(answered, func(out int) any { return out },
		step.Transform(func(in int) int { return 2 * in })))
	run(t, step.With(&bus, s), 21)
	_, err := step.With(&bus, step.EmitBefore(asked, func(in int) any { return in },
		step.EmitAfter(answered, nil, fails[int, int](errTest)))).Run(t.Context(), 5)
	if err != errTest {
		t.Errorf("got %v", err)
	}
	bus.Close()
	if diff := cmp.Diff([]string{"asked <nil>", "answered 42", "asked 5"}, all.heard); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"answered 42"}, one.heard); diff != "" {
		t.Error(diff)
	}
	run(t, s, 1) // without a bus
	run(t, step.With(&bus, s), 1)
	if len(all.heard) != 3 {
		t.Errorf("a closed bus: %v", all.heard)
	}
}

func TestListenerCannotBlockOrBreakAStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		bus := step.EventBus{Logger: slog.New(slog.NewTextHandler(&said, nil))}
		held := make(chan struct{})
		var slow, quick ear
		bus.On(asked, func(e step.Event) { <-held; slow.hear(e) })
		bus.On(asked, func(step.Event) { panic("a listener's bug") })
		bus.On(asked, quick.hear)
		s := step.With(&bus, step.EmitBefore(asked, func(in int) any { return in }, step.Empty[int]()))
		for i := range 400 {
			run(t, s, i)
			synctest.Wait() // the others keep up
		}
		if len(quick.heard) != 400 {
			t.Errorf("the quick one heard %d", len(quick.heard))
		}
		close(held)
		synctest.Wait()
		run(t, s, 400)
		run(t, s, 401)
		bus.Close()
		// One is in its hands, 256 wait, the rest is missed, and it is told how many, once.
		if got := len(slow.heard); got != 259 || slow.heard[257] != "asked 400 missed 143" || slow.heard[258] != "asked 401" {
			t.Errorf("the slow one heard %d, at last %q", got, slow.heard[got-2:])
		}
		if !strings.Contains(said.String(), `msg="listener panicked" event=asked err="a listener's bug"`) {
			t.Errorf("logged: %s", said.String())
		}
	})
}

// TestListenersHearBeforeTheStepGoesOn: what is emitted before a step was handled when the step runs, by all listeners, and
// what is emitted after it before the next one begins.
func TestListenersHearBeforeTheStepGoesOn(t *testing.T) {
	for range 200 {
		var bus step.EventBus
		var mu sync.Mutex
		var order []string
		add := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, what)
		}
		bus.On(asked, func(step.Event) { add("before") })
		bus.On(answered, func(step.Event) { add("after") })
		one := step.EmitBefore(asked, nil, step.EmitAfter(answered, nil, step.Transform(func(in int) int { add("step"); return in })))
		run(t, step.With(&bus, step.Chain2(one, one)), 1)
		if want := []string{"before", "step", "after", "before", "step", "after"}; !slices.Equal(order, want) {
			t.Fatalf("heard %v", order)
		}
		bus.Close()
	}
}

func TestListenerThatIsOffHearsNoMore(t *testing.T) {
	var bus step.EventBus
	var e ear
	off := bus.On(asked, e.hear)
	bus.Emit(asked, 1)
	off()
	off()
	bus.Emit(asked, 2)
	bus.Close()
	if diff := cmp.Diff([]string{"asked 1"}, e.heard); diff != "" {
		t.Error(diff)
	}
	bus.On(asked, e.hear)() // a closed bus takes nobody
	(*step.EventBus)(nil).Emit(asked, 1)
}

// The events of steps that an agent's tool runs are in the agent's progress, which is in the node's event stream.
func TestEventsReachWhoWatchesTheToolCall(t *testing.T) {
	s := step.EmitBefore(asked, nil, step.EmitAfter(answered, nil, step.Empty[int]()))
	var told []string
	set := tool.NewSet(tool.SetConfig{
		Guard:    permission.Chain{{Policy: permission.Policy{Default: permission.Allow}}},
		Progress: func(c llm.ToolCall, p community.Progress) { told = append(told, c.Name+" "+p.Message) },
	}, tool.New(tool.Spec{Name: "answer"}, func(ctx context.Context, _ struct{}) tool.Result {
		_, err := s.Run(ctx, 1)
		return tool.Result{IsError: err != nil}
	}))
	set.Run(t.Context(), []llm.ToolCall{{ID: "1", Name: "answer", Args: json.RawMessage(`{}`)}})
	if diff := cmp.Diff([]string{"answer asked", "answer answered"}, told); diff != "" {
		t.Error(diff)
	}
}
