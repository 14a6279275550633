package cli

import (
	"fmt"
	"time"
)

// spent is what a tree of agents has used.
type spent struct {
	Agents     int     `json:"agents"`
	ModelCalls int     `json:"model_calls"`
	Tokens     int64   `json:"tokens"`
	Cost       float64 `json:"cost"` // as far as it is known
	Wall       float64 `json:"wall"` // seconds
}

// text is that in one line.
func (s spent) text() string {
	return counted(s.Agents+1, "agent") + " · " + s.price() + " · " + took(time.Duration(s.Wall*float64(time.Second)))
}

// after is what one agent has used in its time; it may not be known.
func (s *spent) after(d time.Duration) string {
	if s == nil {
		return took(d)
	}
	return s.price() + " · " + took(d)
}

func (s spent) price() string {
	text := counted(s.ModelCalls, "model call") + " · " + rounded(s.Tokens) + " tokens"
	if s.Cost > 0 {
		text += fmt.Sprintf(" · $%.*f", decimals(s.Cost), s.Cost)
	}
	return text
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// rounded is a large number as people say it.
func rounded(n int64) string {
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
