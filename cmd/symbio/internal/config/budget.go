package config

import "symbio/agent"

// checkBudget finds what is no limit. Zero is the default.
func checkBudget(l agent.Limits, bad func(string, ...any)) {
	for _, n := range []struct {
		key   string
		value float64
	}{
		{"depth", float64(l.Depth)}, {"agents", float64(l.Agents)}, {"spawns_per_minute", float64(l.SpawnsPerMinute)}, {"wall", float64(l.Wall)},
		{"model_calls", float64(l.ModelCalls)}, {"tokens", float64(l.Tokens)}, {"cost", l.Cost},
	} {
		if !(n.value >= 0) { // not a number is neither
			bad("budget.%s is negative", n.key)
		}
	}
}
