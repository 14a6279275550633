// Command machines counts the words of texts on two other machines, and has one of them write the report. Then one of
// the machines leaves, and the same work goes on. The machines are nodes of this process, real but for that.
package main

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"symbio/agent/step"
	"symbio/agent/tool/guardrail"
	"symbio/cmd/examples/internal/lan"
	"symbio/community"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	err := lan.Run(ctx, survey, "desk", "kitchen", "attic")
	cancel()
	if err != nil {
		log.Fatal(err)
	}
}

// offer makes a machine offer two capabilities to the others.
func offer(n *lan.Node) error {
	count := community.Capability{Name: "text.count", Description: "Counts the words of a text", Idempotent: true}
	err := community.OfferFunc(n.Community, count, func(_ context.Context, text string) (int, error) {
		return len(strings.Fields(text)), nil
	})
	if err != nil {
		return err
	}
	report := community.Capability{Name: "text.report", Description: "Puts a number into words", Idempotent: true}
	return community.OfferFunc(n.Community, report, func(_ context.Context, words int) (string, error) {
		return fmt.Sprintf("%d words in all", words), nil
	})
}

// work returns the steps of the desk: it counts each text on the machine with the least to do, adds
// the numbers, and takes the report of the machine that answers first.
func work() step.Step[[]string, string] {
	count := step.Map(4, step.Capability[string, int]("text.count"))
	sum := step.Reduce(0, func(_ context.Context, sum, words int) (int, error) { return sum + words, nil })
	report := step.Race(
		step.Capability[int, string]("text.report", "attic"),
		step.Capability[int, string]("text.report", "kitchen"),
	)
	all := step.Chain3(count, step.EmitAfter("summed", func(n int) any { return n }, sum), step.Timeout(10*time.Second, report))
	// The override lifts the denial around it for these two capabilities, but not a final one.
	all = step.Guardrail(all, guardrail.Override("invoke_capability(text.*)"))
	return step.Guardrail(all, guardrail.Deny("invoke_capability"), guardrail.DenyFinal("invoke_capability(disk.*)"))
}

// survey runs the work twice: with both machines, and after one of them has left. It waits until
// both offer the report, because discovery takes a moment.
func survey(ctx context.Context, nodes map[string]*lan.Node) error {
	desk := nodes["desk"]
	for _, name := range []string{"kitchen", "attic"} {
		if err := offer(nodes[name]); err != nil {
			return err
		}
	}
	if err := desk.Provided(ctx, "text.report", 2); err != nil {
		return err
	}
	// The steps report to the bus, which prints the sum between counting and report.
	var bus step.EventBus
	defer bus.Close()
	bus.On("summed", func(e step.Event) { fmt.Println("event", e.Name, e.Payload) })

	s := step.With(&bus, step.With(step.NewCluster(desk), work()))
	texts := []string{"the tide rises", "the tide falls", "the twilight darkens", "the curlew calls"}
	fmt.Println(s.Run(ctx, texts))
	// The calls that would have gone to the attic go to the kitchen now.
	nodes["attic"].Stop()
	fmt.Println(s.Run(ctx, texts))
	return nil
}
