package budget

import (
	"cmp"
	"math"
	"strconv"
	"time"
)

// Limits bound the use of one agent together with all its descendants. A zero field takes the
// default, a negative one allows nothing.
//
// Wall, ModelCalls, Tokens and Cost count for one task of an agent without a parent, including all
// that its descendants do for it, unless the account is never renewed.
type Limits struct {
	// Depth is how many generations of descendants the first agent may have. Default 3.
	Depth int `yaml:"depth" json:"depth,omitempty"`
	// Agents is how many descendants may run at the same time. Default 16.
	Agents int `yaml:"agents" json:"agents,omitempty"`
	// SpawnsPerMinute is how many descendants may be spawned in any minute. Default 30.
	SpawnsPerMinute int `yaml:"spawns_per_minute" json:"spawns_per_minute,omitempty"`
	// Wall is the longest duration of one task, including the time that it waits for a person.
	// Default 30 minutes.
	Wall time.Duration `yaml:"wall" json:"wall,omitempty"`
	// ModelCalls is how many requests models may get. Repetitions after a failure count as one.
	// Default 1000: enough for 16 agents to reach their limit of 32 turns twice.
	ModelCalls int `yaml:"model_calls" json:"model_calls,omitempty"`
	// Tokens is how many tokens models may read and write. Default 10 million: 1000 calls of 10,000
	// tokens.
	Tokens int64 `yaml:"tokens" json:"tokens,omitempty"`
	// Cost is the most that the calls may cost, in the currency of the price table. With this
	// limit, a model without a price is not asked. Default: no limit, because no prices are built
	// in.
	Cost float64 `yaml:"cost" json:"cost,omitempty"`
}

// WithDefaults replaces zero fields by the defaults: enough for a task that is split three times,
// too little for a fork bomb.
func (l Limits) WithDefaults() Limits {
	l.Depth = cmp.Or(l.Depth, 3)
	l.Agents = cmp.Or(l.Agents, 16)
	l.SpawnsPerMinute = cmp.Or(l.SpawnsPerMinute, 30)
	l.Wall = cmp.Or(l.Wall, 30*time.Minute)
	l.ModelCalls = cmp.Or(l.ModelCalls, 1000)
	l.Tokens = cmp.Or(l.Tokens, 10_000_000)
	return l
}

// Within returns the smaller of each limit of l and o. A zero field of o sets no limit. Where o
// sets one, a zero field of l counts as the default.
func (l Limits) Within(o Limits) Limits {
	usual := Limits{}.WithDefaults()
	return Limits{
		Depth:           minLimit(l.Depth, o.Depth, usual.Depth),
		Agents:          minLimit(l.Agents, o.Agents, usual.Agents),
		SpawnsPerMinute: minLimit(l.SpawnsPerMinute, o.SpawnsPerMinute, usual.SpawnsPerMinute),
		Wall:            minLimit(l.Wall, o.Wall, usual.Wall),
		ModelCalls:      minLimit(l.ModelCalls, o.ModelCalls, usual.ModelCalls),
		Tokens:          minLimit(l.Tokens, o.Tokens, usual.Tokens),
		Cost:            minLimit(l.Cost, o.Cost, usual.Cost),
	}
}

// minLimit returns the smaller of two limits. A zero second limit is no limit; a zero l counts as
// usual.
func minLimit[N cmp.Ordered](l, most, usual N) N {
	var none N
	if most == none {
		return l
	}
	if l = cmp.Or(l, usual); l == none {
		return most
	}
	return min(l, most)
}

// Spent is the use of an agent and its descendants, including those that have ended. It is written
// to events and sent between nodes.
type Spent struct {
	Agents     int   `json:"agents,omitempty"` // descendants that were spawned
	ModelCalls int   `json:"model_calls"`
	Tokens     int64 `json:"tokens"` // read and written by models
	// Cached is the part of Tokens that providers read from their caches, at a lower price.
	Cached int64   `json:"cached,omitempty"`
	Cost   float64 `json:"cost,omitempty"` // of calls with a known price
	Wall   float64 `json:"wall"`           // seconds
}

// Add returns the sum; Wall is s.Wall.
func (s Spent) Add(o Spent) Spent {
	return Spent{Agents: s.Agents + o.Agents, ModelCalls: s.ModelCalls + o.ModelCalls, Tokens: s.Tokens + o.Tokens,
		Cached: s.Cached + o.Cached, Cost: s.Cost + o.Cost, Wall: s.Wall}
}

// kind is a resource that accounts count.
type kind int

const (
	places kind = iota // running descendants; released when one ends
	calls
	tokens
	nanos // cost in units of 1e-9: integers add up exactly, floats do not
	kinds
)

// amounts holds a number of each kind.
type amounts [kinds]int64

// unlimited stands for no limit. Amounts from unlimitedFrom on count as unlimited, too: a remote
// share of an unlimited budget is half of it, and half of that again on the next node.
const (
	unlimited     = int64(1) << 60
	unlimitedFrom = int64(1) << 50
)

// amounts returns the limits by kind; zero = not set.
func (l Limits) amounts() amounts {
	return amounts{int64(l.Agents), int64(l.ModelCalls), l.Tokens, nano(l.Cost)}
}

// nano returns a cost in units of 1e-9, rounded up.
func nano(cost float64) int64 {
	switch n := math.Ceil(cost * 1e9); {
	case n >= float64(unlimited):
		return unlimited
	case n <= -float64(unlimited), math.IsNaN(n):
		return -1
	default:
		return int64(n)
	}
}

// maxWall bounds durations from models and other nodes, so that time.Duration does not overflow.
const maxWall = 365 * 24 * time.Hour

// Rounded returns a number of tokens for people, in at most five characters: 9999, 10k, 12M. It rounds down.
func Rounded(n int64) string {
	switch {
	case n < 10_000:
		return strconv.FormatInt(n, 10)
	case n < 10_000_000:
		return strconv.FormatInt(n/1000, 10) + "k"
	}
	return strconv.FormatInt(n/1_000_000, 10) + "M"
}

// Seconds returns a number of seconds from an untrusted source as a duration: at most a year, -1 if
// it is negative, 0 if it is not a number.
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
