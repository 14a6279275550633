package step_test

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"symbio/agent/step"
)

// add is a step that adds, and fails at a sum that is a multiple of bad.
func add(n, bad int) step.Step[int, int] {
	return step.Func(func(_ context.Context, in int) (int, error) {
		if in += n; bad > 1 && in%bad == 0 {
			return in, errors.New(strconv.Itoa(in))
		}
		return in, nil
	})
}

func outcome(s step.Step[int, int], in int) (int, string) {
	out, err := s.Run(context.Background(), in)
	if err != nil {
		return 0, err.Error()
	}
	return out, ""
}

func TestPipelineIsAssociative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) step.Step[int, int] {
			return add(rapid.IntRange(-5, 5).Draw(t, name), rapid.IntRange(0, 9).Draw(t, name+"'s bad"))
		}
		a, b, c, in := draw("a"), draw("b"), draw("c"), rapid.IntRange(-20, 20).Draw(t, "in")
		want, wantErr := outcome(step.Pipeline(a, b, c), in)
		for name, s := range map[string]step.Step[int, int]{
			"left":    step.Pipeline(step.Pipeline(a, b), c),
			"right":   step.Pipeline(a, step.Pipeline(b, c)),
			"chains":  step.Chain2(a, step.Chain2(b, c)),
			"chain":   step.Chain3(a, b, c),
			"neutral": step.Pipeline(step.Empty[int](), a, step.Pipeline[int](), b, c),
		} {
			if got, err := outcome(s, in); got != want || err != wantErr {
				t.Errorf("%s: got %d, %q, want %d, %q", name, got, err, want, wantErr)
			}
		}
	})
}

func TestPipelineEndsWithTheFirstError(t *testing.T) {
	after := 0
	p := step.Pipeline(step.Empty[int](), fails[int, int](errTest), step.Transform(func(in int) int { after++; return in }))
	if _, err := p.Run(t.Context(), 1); err != errTest || after != 0 {
		t.Errorf("got %v, and %d steps after it", err, after)
	}
}

func TestPipelineEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	after := 0
	last := step.Transform(func(in int) int { after++; return in })
	ends := step.Transform(func(in int) int { cancel(errTest); return in })
	for name, s := range map[string]step.Step[int, int]{"Pipeline": step.Pipeline(ends, last), "Chain2": step.Chain2(ends, last)} {
		if _, err := s.Run(ctx, 1); err != errTest || after != 0 {
			t.Errorf("%s: got %v, and %d steps after it", name, err, after)
		}
	}
}

func TestChainsOfTwoToEightStepsChangeTypes(t *testing.T) {
	text, number := step.Transform(strconv.Itoa),
		step.Func(func(_ context.Context, in string) (int, error) { return strconv.Atoi(in + "0") })
	got := []any{
		run(t, step.Chain2(text, number), 1),
		run(t, step.Chain3(text, number, text), 1),
		run(t, step.Chain4(text, number, text, number), 1),
		run(t, step.Chain5(text, number, text, number, text), 1),
		run(t, step.Chain6(text, number, text, number, text, number), 1),
		run(t, step.Chain7(text, number, text, number, text, number, text), 1),
		run(t, step.Chain8(text, number, text, number, text, number, text, number), 1),
	}
	if diff := cmp.Diff([]any{10, "10", 100, "100", 1000, "1000", 10000}, got); diff != "" {
		t.Error(diff)
	}
}

func TestLoopHasAConditionAndALimit(t *testing.T) {
	double := step.Transform(func(in int) int { return 2 * in })
	over := func(n int) func(int) bool { return func(v int) bool { return v > n } }
	if got := run(t, step.Loop(10, over(50), double), 1); got != 64 {
		t.Errorf("got %d, want 64", got)
	}
	got, err := step.Loop(3, over(50), double).Run(t.Context(), 1)
	if got != 8 || !errors.Is(err, step.ErrLimit) {
		t.Errorf("at the limit: got %d, %v", got, err)
	}
	if got := run(t, step.Loop(1, over(0), double), 1); got != 2 {
		t.Errorf("the condition is for outputs: got %d, want 2", got)
	}
	if _, err := step.Loop(3, over(50), fails[int, int](errTest)).Run(t.Context(), 1); err != errTest {
		t.Errorf("a step that fails: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	ends := step.Transform(func(in int) int { cancel(errTest); return in })
	if _, err := step.Loop(3, over(50), ends).Run(ctx, 1); err != errTest {
		t.Errorf("when ctx ends: %v", err)
	}
}

func TestReduceMakesOneOfMany(t *testing.T) {
	sum := step.Reduce("", func(_ context.Context, sum string, n int) (string, error) {
		if n < 0 {
			return "", errTest
		}
		return sum + strconv.Itoa(n), nil
	})
	if got := run(t, sum, []int{1, 2, 3}); got != "123" {
		t.Errorf("got %q", got)
	}
	if got := run(t, sum, nil); got != "" {
		t.Errorf("of nothing: %q", got)
	}
	if _, err := sum.Run(t.Context(), []int{1, -1}); !errors.Is(err, errTest) || err.Error() != "item 1: the test's error" {
		t.Errorf("got %v", err)
	}
}
