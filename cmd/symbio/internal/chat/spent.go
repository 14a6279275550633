package chat

import (
	"fmt"
	"time"

	"symbio/agent/budget"
)

// SpentText says in one line what a tree of agents has used.
func SpentText(s budget.Spent) string {
	return Counted(s.Agents+1, "agent") + " · " + price(s) + " · " + took(time.Duration(s.Wall*float64(time.Second)))
}

// spentAfter says what one agent has used in its time; s may be nil.
func spentAfter(s *budget.Spent, d time.Duration) string {
	if s == nil {
		return took(d)
	}
	return price(*s) + " · " + took(d)
}

func price(s budget.Spent) string {
	text := Counted(s.ModelCalls, "model call") + " · " + Rounded(s.Tokens) + " tokens"
	if s.Cost > 0 {
		text += fmt.Sprintf(" · $%.*f", decimals(s.Cost), s.Cost)
	}
	return text
}

// Counted is a number of things in words: "1 skill", "2 skills".
func Counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Rounded is a large number as people say it.
func Rounded(n int64) string {
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
