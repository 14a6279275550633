// Package plan has the tool with which a model shows people the steps of its work and how far it is.
//
// The tool touches nothing: it checks the list and publishes it. So it needs no permission of a rule,
// and a rule can deny it like any other.
package plan

import (
	"context"
	_ "embed"
	"fmt"
	"slices"

	"symbio/agent/event"
	"symbio/agent/tool"
	"symbio/internal/security/visible"
)

// Name is the name of the tool.
const Name = "Plan"

// The limits of a plan: more than people follow, and little enough for every event.
const (
	maxSteps = 50
	maxText  = 300 // bytes of a step
)

//go:embed plan.md
var description string

// states are the states of a step.
var states = []string{"pending", "running", "done"}

var kind = tool.NewKind[event.Plan](tool.Spec{Name: Name, Description: description, ReadOnly: true})

// New returns the tool. publish is called with each plan that is valid, and must not block.
func New(publish func(event.Plan)) tool.Tool {
	return kind.New(func(_ context.Context, a event.Plan) tool.Result {
		counts, err := check(a.Steps)
		if err != nil {
			return tool.Result{Text: err.Error() + ".", IsError: true}
		}
		publish(a)
		return tool.Result{Text: fmt.Sprintf("The plan is shown: %d pending, %d running, %d done.", counts["pending"], counts["running"], counts["done"])}
	})
}

// check makes the texts printable and short, and counts the steps of each state. The error tells the
// model what to correct.
func check(steps []event.Step) (map[string]int, error) {
	if len(steps) == 0 || len(steps) > maxSteps {
		return nil, fmt.Errorf("a plan has 1 to %d steps, not %d", maxSteps, len(steps))
	}
	counts := map[string]int{}
	for i := range steps {
		s := &steps[i]
		if s.Text = visible.Line(s.Text, maxText); s.Text == "" {
			return nil, fmt.Errorf("step %d has no text", i+1)
		}
		if !slices.Contains(states, s.State) {
			return nil, fmt.Errorf("step %d has the state %.40q; the states are pending, running and done", i+1, s.State)
		}
		counts[s.State]++
	}
	return counts, nil
}
