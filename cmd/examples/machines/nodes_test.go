package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"symbio/agent/step"
	"symbio/agent/tool/guardrail"
	"symbio/cmd/examples/internal/lan"
	"symbio/community"
)

// Two real nodes and one that dies at work: what the steps promise holds over gRPC and TLS too.
func TestPipelineRunsOverRealNodes(t *testing.T) {
	t.Parallel()
	err := lan.Run(t.Context(), func(ctx context.Context, nodes map[string]*lan.Node) error {
		begun, ended := make(chan string, 99), make(chan string, 99)
		for _, name := range []string{"kitchen", "attic"} {
			if err := offer(nodes[name]); err != nil {
				return err
			}
			hang := community.Capability{Name: "text.hang", Idempotent: true}
			err := community.OfferFunc(nodes[name].Community, hang, func(ctx context.Context, _ int) (string, error) {
				begun <- name
				<-ctx.Done()
				ended <- name
				return "", ctx.Err()
			})
			if err != nil {
				return err
			}
		}
		desk := nodes["desk"]
		if err := desk.Provided(ctx, "text.hang", 2); err != nil {
			return err
		}
		var bus step.EventBus
		heard := 0
		bus.On("summed", func(step.Event) { heard++ })
		here := func(s step.Step[[]string, string]) step.Step[[]string, string] {
			return step.With(&bus, step.With(step.NewCluster(desk), s))
		}

		// The attic dies at work, and the race goes on with who waited for that.
		gone := make(chan struct{})
		kill := step.Func(func(ctx context.Context, _ int) (string, error) {
			select {
			case <-begun:
			case <-ctx.Done():
				return "", ctx.Err()
			}
			nodes["attic"].Stop()
			close(gone)
			return "", errors.New("killed it")
		})
		dead := step.Chain2(step.Parallel(2, step.Capability[int, string]("text.hang", "attic"), kill), step.Transform(func(step.Results[string]) string { return "not dead" }))
		waits := step.Func(func(ctx context.Context, n int) (int, error) {
			select {
			case <-gone:
				return n, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		})
		count := step.Map(4, step.Capability[string, int]("text.count"))
		sum := step.EmitAfter("summed", nil, step.Reduce(0, func(_ context.Context, sum, n int) (int, error) { return sum + n, nil }))
		patient := step.Race(dead, step.Chain2(waits, step.Capability[int, string]("text.report", "kitchen")))
		got, err := here(step.Chain3(count, sum, step.Timeout(time.Minute, patient))).Run(ctx, []string{"a b", "c", "d e f"})
		if err != nil || got != "6 words in all" {
			t.Errorf("the race with one that died: got %q, %v", got, err)
		}

		// A provider that hangs: the time is over, and the other node hears of it.
		sums := 1
		for d := 200 * time.Millisecond; len(begun) == 0; d *= 2 { // on a busy machine it may be over before the provider has begun
			sums++
			slow := step.Timeout(d, step.Race(step.Capability[int, string]("text.hang", "kitchen"), step.Capability[int, string]("text.hang", "attic")))
			if _, err := here(step.Chain3(count, sum, slow)).Run(ctx, []string{"a"}); !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("the timeout: got %v", err)
			}
		}
		for name := range ended {
			if name == "kitchen" {
				break
			}
		}

		// A guardrail inside a guardrail: nothing is sent.
		inner := step.Guardrail(step.Chain2(count, sum), guardrail.Override("invoke_capability(text.count)"))
		outer := step.Guardrail(inner, guardrail.DenyFinal("invoke_capability(text.*)"))
		_, err = here(step.Chain2(outer, step.Transform(func(int) string { return "" }))).Run(ctx, []string{"a"})
		if !errors.Is(err, community.ErrDenied) {
			t.Errorf("inside a guardrail: %v", err)
		}
		bus.Close()
		if heard != sums {
			t.Errorf("%d sums were heard of, want %d", heard, sums)
		}
		return nil
	}, "desk", "kitchen", "attic")
	if err != nil {
		t.Error(err)
	}
}
