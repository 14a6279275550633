package node

import (
	"math"

	"symbio/agent"
	symbiov1 "symbio/proto/symbio/v1"
)

// limitsOf are the configured limits, with those in their place that a request names.
func limitsOf(l agent.Limits, b *symbiov1.Budget) agent.Limits {
	for _, limit := range []struct {
		to   *int
		want uint32
	}{{&l.Depth, b.GetDepth()}, {&l.Agents, b.GetAgents()}, {&l.SpawnsPerMinute, b.GetSpawnsPerMinute()}, {&l.ModelCalls, b.GetModelCalls()}} {
		if limit.want > 0 {
			*limit.to = int(min(limit.want, math.MaxInt32))
		}
	}
	if wall := b.GetWall().AsDuration(); wall > 0 {
		l.Wall = wall
	}
	if b.GetTokens() > 0 {
		l.Tokens = int64(min(b.GetTokens(), math.MaxInt64>>8))
	}
	if b.GetCost() > 0 {
		l.Cost = b.GetCost()
	}
	return l
}

// overBudget says for people that a task ended at a limit, and what to do.
func overBudget(e *agent.OverBudget) string {
	return agent.ErrBudget.Error() + ": " + e.Limit + "; --budget, or budget in the configuration, allows more"
}
