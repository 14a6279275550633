package step_test

import (
	"context"
	"testing"
	"time"

	"symbio/agent/step"
)

// settings have a default that is not their zero value.
type settings struct{ retries int }

func (settings) Default() settings { return settings{retries: 3} }

// library is shared by pointer.
type library struct{ books int }

func (*library) Default() *library { return &library{} }

// reads tells what the context carries.
func reads() step.Step[string, [2]int] {
	return step.Func(func(ctx context.Context, _ string) ([2]int, error) {
		return [2]int{step.Value[settings](ctx).retries, step.Value[*library](ctx).books}, nil
	})
}

func TestValueIsThereForWhatIsInside(t *testing.T) {
	both := step.With(settings{5}, step.With(&library{2}, reads()))
	for name, c := range map[string]struct {
		s    step.Step[string, [2]int]
		want [2]int
	}{
		"the defaults":      {reads(), [2]int{3, 0}},
		"one":               {step.With(settings{5}, reads()), [2]int{5, 0}},
		"several":           {both, [2]int{5, 2}},
		"an inner one":      {step.With(settings{9}, both), [2]int{5, 2}},
		"the zero value":    {step.With(settings{}, reads()), [2]int{0, 0}},
		"across goroutines": {step.With(settings{7}, step.Race(reads())), [2]int{7, 0}},
	} {
		if got := run(t, c.s, ""); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestValueEndsWithItsStep(t *testing.T) {
	inside := [2]int{}
	s := step.Chain2(
		step.With(settings{5}, step.Func(func(ctx context.Context, in string) (string, error) {
			inside, _ = reads().Run(ctx, in)
			return in, nil
		})), reads())
	if got := run(t, s, ""); inside != [2]int{5, 0} || got != [2]int{3, 0} {
		t.Errorf("inside %v, after it %v", inside, got)
	}
}

// A type of another package has no method Default, so what holds without a value is said with its reader.
func TestReaderHasADefaultForAForeignType(t *testing.T) {
	zone := step.Reader(time.UTC)
	read := step.Func(func(ctx context.Context, _ string) (*time.Location, error) { return zone(ctx), nil })
	if got := run(t, read, ""); got != time.UTC {
		t.Errorf("got %v, want the default", got)
	}
	if got := run(t, step.With(time.Local, read), ""); got != time.Local {
		t.Errorf("got %v, want what is carried", got)
	}
}
