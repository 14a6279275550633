package agent

import (
	"cmp"
	"math"
	"time"
)

// Limits bound what one agent and all its descendants together may use. A zero field takes the default, a negative one
// allows nothing.
//
// Wall, ModelCalls, Tokens and Cost are for one task of a first agent, and all that its descendants do meanwhile, unless
// Order.ForLife says otherwise.
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

// withDefaults fills in the limits of the architecture's configuration: enough for a task split three times, too little
// for a fork bomb.
func (l Limits) withDefaults() Limits {
	l.Depth = cmp.Or(l.Depth, 3)
	l.Agents = cmp.Or(l.Agents, 16)
	l.SpawnsPerMinute = cmp.Or(l.SpawnsPerMinute, 30)
	l.Wall = cmp.Or(l.Wall, 30*time.Minute)
	l.ModelCalls = cmp.Or(l.ModelCalls, 1000)
	l.Tokens = cmp.Or(l.Tokens, 10_000_000)
	return l
}

// Within are the limits of which each is the smaller of the two. A zero field of o says nothing; one of l is the default
// beside one of o that does.
func (l Limits) Within(o Limits) Limits {
	usual := Limits{}.withDefaults()
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

// atMost is a limit that is no larger than another, which says nothing if it is zero.
func atMost[N cmp.Ordered](l, most, usual N) N {
	var none N
	if most == none {
		return l
	}
	return lower(cmp.Or(l, usual), most)
}

// Spent is what an agent and its descendants have used, those that have ended too.
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

// endless is no limit, and what is at least boundless is as good as none: each share of an endless budget is half of it.
const (
	endless   = int64(1) << 60
	boundless = int64(1) << 50
)

// amounts are the kinds' limits; zero stands for those that l says nothing about.
func (l Limits) amounts() amounts {
	return amounts{int64(l.Agents), int64(l.ModelCalls), l.Tokens, nano(l.Cost)}
}

// nano is a cost in whole units, rounded up.
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
