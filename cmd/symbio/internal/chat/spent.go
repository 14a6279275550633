package chat

import (
	"fmt"
	"time"

	"symbio/agent/budget"
	"symbio/internal/security/visible"
)

// SpentText returns in one line what a tree of agents has used: agents, model calls, tokens, cost
// and time. Spent.Agents counts sub-agents only, so the first agent is added.
func SpentText(s budget.Spent) string {
	return visible.Plural(s.Agents+1, "agent") + " · " + UsageText(s) + " · " + DurationText(time.Duration(s.Wall*float64(time.Second)))
}

// UsageAndTime returns what one agent has used in the time d; s may be nil.
func UsageAndTime(s *budget.Spent, d time.Duration) string {
	if s == nil {
		return DurationText(d)
	}
	return UsageText(*s) + " · " + DurationText(d)
}

// UsageText returns model calls, tokens, how many of them came from a provider's cache, and the cost if
// there is one. The cost is in the currency of the prices, shown as dollars.
func UsageText(s budget.Spent) string {
	text := visible.Plural(s.ModelCalls, "model call") + " · " + budget.Rounded(s.Tokens) + " tokens"
	if s.Cached > 0 {
		text += " (" + budget.Rounded(s.Cached) + " cached)"
	}
	if s.Cost > 0 {
		text += " · " + CostText(s)
	}
	return text
}

// CostText returns the cost with as many decimal places as it needs to be readable.
func CostText(s budget.Spent) string {
	if s.Cost < 0.01 {
		return fmt.Sprintf("$%.4f", s.Cost)
	}
	return fmt.Sprintf("$%.2f", s.Cost)
}
