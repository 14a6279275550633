package budget

import (
	"fmt"
	"time"
)

// Alerts returns a sentence for each limit that the whole tree has used up to a share, once in a task of the agent
// without a parent: cost, tokens, model calls, and the time of that agent's own task.
func (p *Task) Alerts(share float64) (all []string) {
	top := p.account
	for top.parent != nil {
		top = top.parent
	}
	used := top.Total()
	top.ledger.mu.Lock()
	defer top.ledger.mu.Unlock()
	check := func(k kind, used, limit float64, text string, of ...any) {
		if alerted := &top.quotas[k].alerted; limit > 0 && used >= share*limit && !*alerted {
			*alerted = true
			all = append(all, fmt.Sprintf("%.0f %% of the budget of ", 100*used/limit)+fmt.Sprintf(text, of...))
		}
	}
	check(calls, float64(used.ModelCalls), float64(top.quotas[calls].limit), "model calls is used: %d of %d", used.ModelCalls, top.quotas[calls].limit)
	check(tokens, float64(used.Tokens), float64(top.quotas[tokens].limit), "tokens is used: %d of %d", used.Tokens, top.quotas[tokens].limit)
	if top.quotas[nanos].limit < unlimitedFrom {
		limit := float64(top.quotas[nanos].limit) / 1e9
		check(nanos, used.Cost, limit, "cost is spent: $%.2f of $%.2f", used.Cost, limit)
	}
	if top == p.account {
		ran := top.wall - time.Until(p.end)
		check(places, ran.Seconds(), top.wall.Seconds(), "time is used: %s of %s", ran.Round(time.Second), top.wall)
	}
	return all
}
