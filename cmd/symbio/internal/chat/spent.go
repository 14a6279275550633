package chat

import (
	"fmt"
	"time"

	"symbio/agent/budget"
)

// SpentText says in one line what a tree of agents has used.
func SpentText(s budget.Spent) string {
	return Plural(s.Agents+1, "agent") + " · " + usageText(s) + " · " + durationText(time.Duration(s.Wall*float64(time.Second)))
}

// usageAndTime says what one agent has used in its time; s may be nil.
func usageAndTime(s *budget.Spent, d time.Duration) string {
	if s == nil {
		return durationText(d)
	}
	return usageText(*s) + " · " + durationText(d)
}

func usageText(s budget.Spent) string {
	text := Plural(s.ModelCalls, "model call") + " · " + RoundedCount(s.Tokens) + " tokens"
	if s.Cost > 0 {
		text += fmt.Sprintf(" · $%.*f", decimals(s.Cost), s.Cost)
	}
	return text
}

// Plural is a number of things in words: "1 skill", "2 skills".
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// RoundedCount is a large number as people say it.
func RoundedCount(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprint(n)
	case n < 10_000_000:
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprintf("%dM", n/1_000_000)
}

// decimals are as many as say something of a small amount.
func decimals(cost float64) int {
	if cost < 0.01 {
		return 4
	}
	return 2
}
