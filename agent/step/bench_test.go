package step_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"symbio/agent/step"
)

// worker is what the floor calls: ten functions through an interface, by hand.
type worker interface {
	work(ctx context.Context, in int) (int, error)
}

// fn is a function as a worker.
type fn func(ctx context.Context, in int) (int, error)

func (f fn) work(ctx context.Context, in int) (int, error) { return f(ctx, in) }

func tenFunctions() (all []fn) {
	for n := range 10 {
		all = append(all, func(_ context.Context, in int) (int, error) { return in + n, nil })
	}
	return all
}

func tenSteps() (all []step.Step[int, int]) {
	for _, f := range tenFunctions() {
		all = append(all, step.Func(f))
	}
	return all
}

// BenchmarkTenSteps measures a pipeline of ten steps against calling the ten functions through an interface, with the
// checks of errors that anybody would write, and without a context that can end and with one.
func BenchmarkTenSteps(b *testing.B) {
	cancellable, cancel := context.WithCancel(context.Background())
	defer cancel()
	chained := step.Chain2(step.Chain5(tenFive(0)), step.Chain5(tenFive(5)))
	for _, c := range []struct {
		name string
		ctx  context.Context
		s    step.Step[int, int]
	}{
		{"Func", context.Background(), step.Pipeline(tenSteps()...)},
		{"Func, a context that can end", cancellable, step.Pipeline(tenSteps()...)},
		{"Chain5 of Func, twice", context.Background(), chained},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var workers []worker
			for _, f := range tenFunctions() {
				workers = append(workers, f)
			}
			floor := func(in int) (_ int, err error) {
				for _, w := range workers {
					if in, err = w.work(c.ctx, in); err != nil {
						return in, err
					}
				}
				return in, nil
			}
			candidate := func(in int) (int, error) { return c.s.Run(c.ctx, in) }
			const batch = 1000
			var floors, candidates []time.Duration
			measure := func(f func(int) (int, error)) time.Duration {
				begun := time.Now()
				for i := range batch {
					if _, err := f(i); err != nil {
						b.Fatal(err)
					}
				}
				return time.Since(begun)
			}
			for b.Loop() { // interleaved, because the machine is not ours alone
				floors, candidates = append(floors, measure(floor)), append(candidates, measure(candidate))
			}
			slices.Sort(floors)
			slices.Sort(candidates)
			b.ReportMetric(float64(candidates[len(candidates)/2])/float64(floors[len(floors)/2]), "x-floor")
			b.ReportMetric(float64(candidates[len(candidates)/2])/batch, "ns/pipeline")
		})
	}
}

func tenFive(from int) (a, b, c, d, e step.Step[int, int]) {
	all := tenSteps()[from:]
	return all[0], all[1], all[2], all[3], all[4]
}

func TestPipelineAllocatesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for name, s := range map[string]step.Step[int, int]{
		"Pipeline": step.Pipeline(tenSteps()...),
		"Chain5":   step.Chain5(tenFive(0)),
		"gates":    step.Pipeline(step.Passthrough[int](), step.Empty[int](), step.Transform(func(n int) int { return n + 1 })),
		"a loop":   step.Loop(100, func(n int) bool { return n > 10_000 }, step.Pipeline(tenSteps()...)),
	} {
		if got := testing.AllocsPerRun(100, func() { _, _ = s.Run(ctx, 9_990) }); got != 0 {
			t.Errorf("%s: %v allocations a run, want none", name, got)
		}
	}
}
