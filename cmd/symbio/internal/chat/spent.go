package chat

import (
	"fmt"
	"time"
)

// Spent is what a tree of agents has used.
type Spent struct {
	Agents     int     `json:"agents"`
	ModelCalls int     `json:"model_calls"`
	Tokens     int64   `json:"tokens"`
	Cost       float64 `json:"cost"` // as far as it is known
	Wall       float64 `json:"wall"` // seconds
}

// Text is that in one line.
func (s Spent) Text() string {
	return Counted(s.Agents+1, "agent") + " · " + s.price() + " · " + took(time.Duration(s.Wall*float64(time.Second)))
}

// after is what one agent has used in its time; it may not be known.
func (s *Spent) after(d time.Duration) string {
	if s == nil {
		return took(d)
	}
	return s.price() + " · " + took(d)
}

func (s Spent) price() string {
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
