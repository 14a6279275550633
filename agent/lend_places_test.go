package agent_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"symbio/agent"
	"symbio/agent/budget"
	"symbio/internal/agent/lending"
)

// A limit of living agents counts those that live, on whatever node: 40 of 64 start over two nodes, and of the default all 16.
func TestLoansLeavePlacesToOthers(t *testing.T) {
	many := func(more map[string]any) map[string]any {
		more["reason"] = "many hands"
		return more
	}
	for name, tt := range map[string]struct {
		limits budget.Limits
		there  []int // how many of each lent agent's own
		here   int
		refuse string // one more
	}{
		"40 of 64":    {budget.Limits{Agents: 64, SpawnsPerMinute: 99, ModelCalls: 100_000, Tokens: 1 << 40}, []int{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 3, 3, 3, 3}, 10, ""},
		"the default": {budget.Limits{}, []int{3, 3, 3}, 4, "16 sub-agents live already"},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLAN(t, obeying(), lending.LenderConfig{Definitions: general().Definitions, Max: 99, PerNode: 99})
			p := &pair{lan: l, lent: true, parent: l.a.spawn(t, agent.Order{Limits: tt.limits, LifetimeBudget: true})}
			alive := tt.here
			for _, below := range tt.there {
				p.spawn()
				if below > 0 {
					if got := p.asks("replicate_agent", many(map[string]any{"count": below})); strings.Contains(got, "over the budget") {
						t.Errorf("%s: %s", name, got)
					}
				}
				alive += 1 + below
			}
			if got := p.has("replicate_agent", many(map[string]any{"count": tt.here})); strings.Contains(got, "over the budget") {
				t.Errorf("%s: %s", name, got)
			}
			if got := len(l.a.here()) - 1 + len(l.b.here()); got != alive {
				t.Errorf("%s: %d live, want %d", name, got, alive)
			}
			if got := p.asks("replicate_agent", many(map[string]any{})); tt.refuse != "" && !strings.Contains(got, tt.refuse) {
				t.Errorf("%s: one more there: %s", name, got)
			}
			// What ends there makes room here.
			last := l.b.here()[0]
			for _, m := range l.b.here() {
				if m.Metadata["lent_to"] == "" {
					last = m
				}
			}
			if err := l.b.community.Terminate(context.Background(), last.ID); err != nil {
				t.Fatal(err)
			}
			settle(time.Second)
			if got := p.has("replicate_agent", many(map[string]any{})); strings.Contains(got, "over the budget") {
				t.Errorf("%s: after the end of another: %s", name, got)
			}
		})
	}
}
