package agent

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// ErrBudget says that a limit of the budget is reached. The call that would have gone over it did nothing.
var ErrBudget = errors.New("over the budget")

// Limits bound what one agent and all its descendants together may use. Zero fields take defaults.
type Limits struct {
	// Depth is how many generations may stand below the first agent. Default 3.
	Depth int `yaml:"depth"`
	// Agents is how many descendants may live at once. Default 16.
	Agents int `yaml:"agents"`
	// SpawnsPerMinute bounds the rate at which descendants are made. Default 30.
	SpawnsPerMinute int `yaml:"spawns_per_minute"`
	// Wall is how long one task may take. Default 30 minutes.
	Wall time.Duration `yaml:"wall"`
}

// withDefaults fills in the limits of the architecture's configuration: enough for a task split
// three times, too little for a fork bomb.
func (l Limits) withDefaults() Limits {
	if l.Depth == 0 {
		l.Depth = 3
	}
	if l.Agents == 0 {
		l.Agents = 16
	}
	if l.SpawnsPerMinute == 0 {
		l.SpawnsPerMinute = 30
	}
	if l.Wall == 0 {
		l.Wall = 30 * time.Minute
	}
	return l
}

// budget is shared by an agent and all its descendants: what one spends, the others no longer have.
type budget struct {
	limits Limits
	spawns *rate.Limiter

	mu     sync.Mutex
	living int // guarded by mu
}

func newBudget(l Limits) *budget {
	l = l.withDefaults()
	return &budget{
		limits: l,
		spawns: rate.NewLimiter(rate.Limit(float64(l.SpawnsPerMinute)/60), l.SpawnsPerMinute),
	}
}

// reserve takes the place of one more descendant, whose generation is depth, or says which limit
// stands against it. release gives the place back.
func (b *budget) reserve(depth int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case depth > b.limits.Depth:
		return fmt.Errorf("%w: agents may be nested %d deep", ErrBudget, b.limits.Depth)
	case b.living >= b.limits.Agents:
		return fmt.Errorf("%w: %d sub-agents live already", ErrBudget, b.living)
	case !b.spawns.Allow():
		return fmt.Errorf("%w: %d sub-agents a minute", ErrBudget, b.limits.SpawnsPerMinute)
	}
	b.living++
	return nil
}

func (b *budget) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.living--
}

// retake takes a place again that was given back by an agent which has been restarted since.
func (b *budget) retake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.living++
}
