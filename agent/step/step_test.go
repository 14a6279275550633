package step_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"symbio/agent/step"
	"symbio/agent/tool/guardrail"
)

var errTest = errors.New("the test's error")

// fails is a step that fails.
func fails[In, Out any](err error) step.Step[In, Out] {
	return step.Func(func(context.Context, In) (out Out, _ error) { return out, err })
}

// run runs a step that must not fail.
func run[In, Out any](t *testing.T, s step.Step[In, Out], in In) Out {
	t.Helper()
	out, err := s.Run(t.Context(), in)
	if err != nil {
		t.Fatalf("Run(%v): %v", in, err)
	}
	return out
}

// counter is a step of a type of its own.
type counter struct{ runs int }

func (c *counter) Run(context.Context, string) (int, error) { c.runs++; return c.runs, nil }

func TestStepIsAFunctionOrAnythingThatRuns(t *testing.T) {
	length := step.Func(func(_ context.Context, in string) (int, error) { return len(in), nil })
	if got := run(t, length, "four"); got != 4 {
		t.Errorf("Func: got %d", got)
	}
	if got := run(t, step.Transform(strings.ToUpper), "a"); got != "A" {
		t.Errorf("Transform: got %q", got)
	}
	if got := run(t, step.Chain2(&counter{}, step.Transform(strconv.Itoa)), "x"); got != "1" {
		t.Errorf("a step of one's own: got %q", got)
	}
}

// One step, many runs at once: what a step keeps for a run is that run's.
func TestStepMayBeRunByManyAtOnce(t *testing.T) {
	var bus step.EventBus
	defer bus.Close()
	inner := step.Guardrail(step.EmitAfter("doubled", func(n int) any { return n }, step.Transform(func(n int) int { return 2 * n })),
		guardrail.Deny("Bash"))
	one := step.Trace("one", step.Retry(step.Again{}, step.Timeout(time.Minute, step.Race(inner, inner))))
	many := step.Chain2(step.Map(4, one), step.Reduce(0, func(_ context.Context, sum, n int) (int, error) { return sum + n, nil }))
	s := step.With(&bus, step.With(step.Tracer(func(step.Span) {}), many))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got, err := s.Run(t.Context(), []int{1, 2, 3, 4}); got != 20 || err != nil {
				t.Errorf("got %d, %v", got, err)
			}
		})
	}
	wg.Wait()
}

func TestEmptyGivesWhatItIsGiven(t *testing.T) {
	if got := run(t, step.Empty[int](), 7); got != 7 {
		t.Errorf("got %d", got)
	}
}

func TestJoinPutsTextsTogether(t *testing.T) {
	for want, in := range map[string][]string{"": nil, "a": {"a"}, "a, b": {"a", "b"}} {
		if got := run(t, step.Join(", "), in); got != want {
			t.Errorf("%v: got %q, want %q", in, got, want)
		}
	}
}

func TestAnyChecksTypesWhenItRuns(t *testing.T) {
	steps := []step.Step[any, any]{step.Any(step.Transform(strconv.Itoa)), step.Any(step.Transform(strings.ToUpper))}
	if got := run(t, step.Pipeline(steps...), any(12)); got != "12" {
		t.Errorf("got %v", got)
	}
	if _, err := steps[0].Run(t.Context(), "12"); err == nil || err.Error() != "the step takes int, and was given string" {
		t.Errorf("a wrong type: %v", err)
	}
}

func TestGatePassesChangesOrBlocks(t *testing.T) {
	gate := step.Gate(func(in string) (string, error) {
		if in == "" {
			return "", step.Block("there is no question")
		}
		return strings.ToLower(in), nil
	})
	inner := &counter{}
	guarded := step.Chain2(gate, inner)
	if got := run(t, guarded, "WHY"); got != 1 {
		t.Errorf("got %d", got)
	}
	_, err := guarded.Run(t.Context(), "")
	if blocked, ok := errors.AsType[*step.GateError](err); !ok || blocked.Reason != "there is no question" ||
		err.Error() != "blocked: there is no question" {
		t.Errorf("blocked with %v", err)
	}
	if inner.runs != 1 {
		t.Errorf("behind the gate: %d runs, want 1", inner.runs)
	}
	if got := run(t, step.Passthrough[int](), 3); got != 3 {
		t.Errorf("Passthrough: got %d", got)
	}
	if _, err := step.Blocked[int, string]("closed").Run(t.Context(), 1); err == nil || err.Error() != "blocked: closed" {
		t.Errorf("Blocked: %v", err)
	}
}
