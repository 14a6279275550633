package budget

import (
	"cmp"
	"math"
	"time"
)

// Limits bound what one agent and all its descendants together may use. A zero field takes the default, a negative one
// allows nothing.
//
// Wall, ModelCalls, Tokens and Cost are for one task of an agent without a parent, with all that its descendants do
// meanwhile, unless the account is never renewed.
type Limits struct {
	// Depth is how many generations may stand below the first agent. Default 3.
	Depth int `yaml:"depth" json:"depth,omitempty"`
	// Agents is how many descendants may live at once. Default 16.
	Agents int `yaml:"agents" json:"agents,omitempty"`
	// SpawnsPerMinute is how many descendants may be made in any minute. Default 30.
	SpawnsPerMinute int `yaml:"spawns_per_minute" json:"spawns_per_minute,omitempty"`
	// Wall is how long one task may take, by the clock: what waits for a person counts. Default 30 minutes.
	Wall time.Duration `yaml:"wall" json:"wall,omitempty"`
	// ModelCalls is how often models may be asked. What a model repeats by itself after a failure is one call. Default
	// 1000: all of 16 agents twice to the end of their turns.
	ModelCalls int `yaml:"model_calls" json:"model_calls,omitempty"`
	// Tokens is how many tokens models may read and write. Default 10 million: that many calls, of 10,000 each.
	Tokens int64 `yaml:"tokens" json:"tokens,omitempty"`
	// Cost is what the calls may cost by the price table, in its currency. A model without a price is not asked where
	// there is such a limit. Default: none, since no prices are built in.
	Cost float64 `yaml:"cost" json:"cost,omitempty"`
}

// WithDefaults fills in the limits of the architecture's configuration: enough for a task split three times, too little
// for a fork bomb.
func (l Limits) WithDefaults() Limits {
	l.Depth = cmp.Or(l.Depth, 3)
	l.Agents = cmp.Or(l.Agents, 16)
	l.SpawnsPerMinute = cmp.Or(l.SpawnsPerMinute, 30)
	l.Wall = cmp.Or(l.Wall, 30*time.Minute)
	l.ModelCalls = cmp.Or(l.ModelCalls, 1000)
	l.Tokens = cmp.Or(l.Tokens, 10_000_000)
	return l
}

// Within returns the smaller of each limit of l and o. A zero field of o sets no limit; a zero field of l stands for the
// default where o sets one.
func (l Limits) Within(o Limits) Limits {
	usual := Limits{}.WithDefaults()
	return Limits{
		Depth:           atMost(l.Depth, o.Depth, usual.Depth),
		Agents:          atMost(l.Agents, o.Agents, usual.Agents),
		SpawnsPerMinute: atMost(l.SpawnsPerMinute, o.SpawnsPerMinute, usual.SpawnsPerMinute),
		Wall:            atMost(l.Wall, o.Wall, usual.Wall),
		ModelCalls:      atMost(l.ModelCalls, o.ModelCalls, usual.ModelCalls),
		Tokens:          atMost(l.Tokens, o.Tokens, usual.Tokens),
		Cost:            atMost(l.Cost, o.Cost, usual.Cost),
	}
}

// atMost returns the smaller of two limits. A zero most is no limit; a zero l stands for usual.
func atMost[N cmp.Ordered](l, most, usual N) N {
	var none N
	if most == none {
		return l
	}
	if l = cmp.Or(l, usual); l == none {
		return most
	}
	return min(l, most)
}

// Spent is what an agent and its descendants have used, with those that have ended.
type Spent struct {
	Agents     int     `json:"agents,omitempty"` // that were made
	ModelCalls int     `json:"model_calls"`
	Tokens     int64   `json:"tokens"`         // that models read and wrote
	Cost       float64 `json:"cost,omitempty"` // as far as it is known
	Wall       float64 `json:"wall"`           // seconds
}

// kind is something that a budget has a number of.
type kind int

const (
	places kind = iota // for descendants that live; comes back when one ends
	calls
	tokens
	nanos // cost, in units of 1e-9: whole numbers sum up exactly
	kinds
)

// amounts are how much of each kind.
type amounts [kinds]int64

// endless stands for no limit. From boundless on a limit counts as none: each share of an endless budget is half of it.
const (
	endless   = int64(1) << 60
	boundless = int64(1) << 50
)

// amounts returns the limits by kind; zero stands for those that l does not set.
func (l Limits) amounts() amounts {
	return amounts{int64(l.Agents), int64(l.ModelCalls), l.Tokens, nano(l.Cost)}
}

// nano returns a cost in units of 1e-9, rounded up.
func nano(cost float64) int64 {
	switch n := math.Ceil(cost * 1e9); {
	case n >= float64(endless):
		return endless
	case n <= -float64(endless), math.IsNaN(n):
		return -1
	default:
		return int64(n)
	}
}

// maxWall is more than anything may take.
const maxWall = 365 * 24 * time.Hour

// Seconds returns a number of seconds, whatever it is, as a limit of time: at most a year; -1 when it is negative.
func Seconds(s float64) time.Duration {
	switch {
	case s < 0:
		return -1
	case s >= maxWall.Seconds():
		return maxWall
	case s > 0:
		return time.Duration(s * float64(time.Second))
	}
	return 0 // NaN, too
}
