package agent

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"symbio/community"
)

// ErrBudget says that a limit of the budget is reached. The call that would have gone over it did nothing.
var ErrBudget = errors.New("over the budget")

// ledger is what the accounts of one tree of agents have in common.
type ledger struct {
	mu      sync.Mutex
	changed chan struct{} // closed when something is given back; nil = nobody waits for that; guarded by mu
}

// account is what an agent and its descendants may use, and what they have used. Of each kind it has a part of its own,
// its share, or draws on the nearest account above that has one. What is taken of a share is what is spent, what calls in
// flight may spend at most, what is kept for last words, and the shares of accounts below: so that the sum over the
// tree is always the whole. All of it is guarded by the ledger's mu.
type account struct {
	ledger     *ledger
	parent     *account
	wall       time.Duration // constant
	late       *OverBudget   // how a task ends that takes longer; constant
	generation int           // 0 is the first agent's; constant
	below      int           // how many generations may stand below it; constant
	share      Limits        // what was asked for it; constant
	away       bool          // it is another node's to spend; constant

	own    [kinds]bool // constant; the first agent's has all
	limit  amounts     // of its own kinds
	most   amounts     // of those that it draws on: what it may take at most, without a share; 0 = as much as there is; constant
	taken  amounts     // of its share, or by way of it of that which it draws on
	flying amounts     // the part of taken that calls in flight may spend
	spent  amounts     // the part of taken that is spent for good
	spawns *window     // nil = its parent's alone

	used   amounts // by it and all below it, over all tasks
	made   int     // descendants, over all tasks
	base   Spent   // used and made when the task began
	born   time.Time
	closed bool
}

// newAccount is the account of a first agent.
func newAccount(l Limits) *account {
	l = l.withDefaults()
	a := &account{
		ledger: &ledger{}, wall: max(l.Wall, 0), below: max(l.Depth, 0), share: l,
		limit: l.amounts(), spawns: &window{most: max(l.SpawnsPerMinute, 0)}, born: time.Now(),
	}
	for k := range kinds {
		a.own[k] = true
		a.limit[k] = max(a.limit[k], 0)
	}
	if l.Cost == 0 {
		a.limit[nanos] = endless
	}
	a.late = tooLate(a.wall)
	return a
}

// open opens the account of one more descendant, with a share of what its parent may use, or says which limit stands
// against it. Zero fields of share are no share: it draws on its parent's, as do its siblings. With away it is for an
// agent on another node, and everything is shared out, half of what is left where share does not say how much.
func (a *account) open(share Limits, away bool) (*account, error) {
	return a.openWithin(Limits{}, share, away)
}

// openWithin is open for one that may use no more than most, which is no share: nothing is set aside for it.
func (a *account) openWithin(most, share Limits, away bool) (*account, error) {
	share.Depth, share.SpawnsPerMinute, share.Wall = atMost(share.Depth, most.Depth, 0), atMost(share.SpawnsPerMinute, most.SpawnsPerMinute, 0), atMost(share.Wall, most.Wall, 0)
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	child := &account{
		ledger: a.ledger, parent: a, wall: a.wall, generation: a.generation + 1, below: a.below - 1, share: share, away: away, most: most.amounts(), born: time.Now(),
	}
	if share.Wall != 0 {
		child.wall = min(a.wall, max(share.Wall, 0))
	}
	child.late = tooLate(child.wall)
	if share.Depth != 0 {
		child.below = min(child.below, max(share.Depth, 0))
	}
	if a.below <= 0 {
		return nil, fmt.Errorf("%w: agents may be nested %d deep", ErrBudget, a.generation)
	}
	if err := child.carve(); err != nil {
		return nil, err
	}
	for p := a; p != nil; p = p.parent {
		p.made++
	}
	return child, nil
}

func tooLate(wall time.Duration) *OverBudget {
	return &OverBudget{Limit: wall.String() + " for one task"}
}

// carve takes the place of an account that is opened and its share out of what is above it. Nothing is taken with an
// error.
func (a *account) carve() error {
	if a.parent.closed {
		return community.ErrStopped
	}
	want := a.share.amounts()
	free := a.parent.free()
	if free[places] < 1 {
		_, most, _ := a.parent.binding(places)
		return fmt.Errorf("%w: %d sub-agents live already", ErrBudget, most)
	}
	for _, k := range []kind{calls, tokens} {
		if free[k] < 1 {
			return fmt.Errorf("%w: %s are used up", ErrBudget, a.parent.limitOf(k))
		}
	}
	free[places]--
	for k := range kinds {
		switch {
		case a.away && want[k] == 0:
			want[k] = free[k] / 2
		case want[k] == 0:
			continue
		}
		if a.most[k] != 0 {
			want[k] = min(want[k], a.most[k])
		}
		if want[k] > free[k] {
			return fmt.Errorf("%w: no share of %s, because only %s are left", ErrBudget, k.say(want[k]), k.say(max(free[k], 0)))
		}
		a.own[k], a.limit[k] = true, max(want[k], 0)
	}
	if a.away && (a.limit[calls] < 1 || a.limit[tokens] < 1) {
		return fmt.Errorf("%w: nothing is left to share", ErrBudget)
	}
	if err := a.carveRate(); err != nil {
		return err
	}
	for k, own := range a.own {
		if own {
			a.parent.adjust(kind(k), a.limit[k])
		}
	}
	a.parent.adjust(places, 1)
	return nil
}

// carveRate counts the spawn against every limit of the rate above, and takes the rate of an account that is away out
// of its parent's: nobody else can watch over it there.
func (a *account) carveRate() error {
	now := time.Now()
	room := int(endless)
	for p := a.parent; p != nil; p = p.parent {
		if p.spawns == nil {
			continue
		}
		if p.spawns.room(now) < 1 {
			return fmt.Errorf("%w: %d sub-agents a minute", ErrBudget, p.spawns.most)
		}
		room = min(room, p.spawns.room(now)-1) // what was made in the last minute counts beside what may be made there
	}
	if a.share.SpawnsPerMinute != 0 || a.away {
		most := max(min(a.share.SpawnsPerMinute, room), 0)
		if a.share.SpawnsPerMinute == 0 {
			most = room / 2
		}
		a.spawns = &window{most: most}
	}
	for p := a.parent; p != nil; p = p.parent {
		if p.spawns != nil {
			p.spawns.mark(now, 1)
			if a.away {
				p.spawns.lent += a.spawns.most
			}
		}
	}
	return nil
}

// pool is the account whose share of a kind a draws on.
func (a *account) pool(k kind) *account {
	for !a.own[k] {
		a = a.parent
	}
	return a
}

// free is what is left of each kind.
func (a *account) free() (left amounts) {
	for k := range kinds {
		_, _, left[k] = a.binding(k)
	}
	return left
}

// binding is the account whose limit of a kind is the nearest, that limit, and what is left of it.
func (a *account) binding(k kind) (by *account, limit, left int64) {
	left = endless
	for p := a; ; p = p.parent {
		most := p.most[k]
		if p.own[k] {
			most = p.limit[k]
		} else if most == 0 {
			continue
		}
		if rest := max(most, 0) - p.taken[k]; by == nil || rest < left {
			by, limit, left = p, max(most, 0), rest
		}
		if p.own[k] {
			return by, limit, left
		}
	}
}

// each calls f for the account and those above it up to the one whose share of a kind is meant; and where that has given
// back what was left of it, for those that have it now.
func (a *account) each(k kind, f func(*account)) {
	for p := a; p != nil; p = p.parent {
		f(p)
		if p.own[k] && !p.closed {
			return
		}
	}
}

// adjust takes n of a kind, or gives it back.
func (a *account) adjust(k kind, n int64) { a.each(k, func(p *account) { p.taken[k] += n }) }

// close gives the place back, and what is left of the share. It does nothing to one that is closed.
func (a *account) close() {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	if a.closed || a.parent == nil {
		return
	}
	a.closed = true
	a.parent.adjust(places, -1)
	for k, own := range a.own {
		if k := kind(k); own {
			a.parent.each(k, func(p *account) {
				p.taken[k] -= a.limit[k] - a.taken[k]
				p.flying[k] += a.flying[k]
				p.spent[k] += a.spent[k]
			})
			a.limit[k] -= a.spent[k] // what it has when it is opened again
			a.taken[k] -= a.spent[k]
			a.spent[k] = 0
		}
	}
	if a.away {
		now := time.Now()
		for p := a.parent; p != nil; p = p.parent {
			if p.spawns != nil {
				p.spawns.lent -= a.spawns.most
				p.spawns.mark(now, min(a.spawns.most, a.made)) // it is not known when they were
			}
		}
	}
	a.ledger.tell()
}

// reopen takes again what close gave back, for an agent that was restarted.
func (a *account) reopen() error {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	if a.parent == nil || !a.closed {
		return nil
	}
	if a.parent.closed {
		return community.ErrStopped
	}
	for k, own := range a.own {
		if own {
			a.limit[k], a.taken[k], a.spent[k] = a.limit[k]-a.spent[k], a.taken[k]-a.spent[k], 0
		}
	}
	free := a.parent.free()
	free[places]--
	for k, own := range a.own {
		if own && a.limit[k] > free[k] || free[places] < 0 {
			return fmt.Errorf("%w: what it had is somebody else's now", ErrBudget)
		}
	}
	a.closed = false
	a.parent.adjust(places, 1)
	for k, own := range a.own {
		if k := kind(k); own {
			a.parent.adjust(k, a.limit[k]-a.taken[k])
			a.parent.each(k, func(p *account) { p.flying[k] -= a.flying[k] })
		}
	}
	return nil
}

// renew begins a task of a first agent: what was spent so far was that of others.
func (a *account) renew() {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	a.base = Spent{Agents: a.made, ModelCalls: int(a.used[calls]), Tokens: a.used[tokens], Cost: float64(a.used[nanos])}
	a.born = time.Now()
	for k := range kinds {
		a.taken[k] -= a.spent[k]
		a.spent[k] = 0
	}
}

// spend counts what was used for good. It needs mu.
func (a *account) spend(n amounts) {
	for k := range kinds {
		if n[k] != 0 {
			a.each(k, func(p *account) { p.spent[k] += n[k]; p.taken[k] += n[k] })
		}
	}
	for p := a; p != nil; p = p.parent {
		for k := range kinds {
			p.used[k] += n[k]
		}
	}
}

// total is what was used since the task began.
func (a *account) total() Spent {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	return Spent{
		Agents: a.made - a.base.Agents, ModelCalls: int(a.used[calls]) - a.base.ModelCalls, Tokens: a.used[tokens] - a.base.Tokens,
		Cost: (float64(a.used[nanos]) - a.base.Cost) / 1e9, Wall: time.Since(a.born).Seconds(),
	}
}

// tell wakes those that wait for something to be given back. It needs mu.
func (l *ledger) tell() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// change is closed when something is given back. It needs mu.
func (l *ledger) change() <-chan struct{} {
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

// say is a number of a kind in words.
func (k kind) say(n int64) string {
	switch k {
	case calls:
		return fmt.Sprintf("%d model calls", n)
	case tokens:
		return fmt.Sprintf("%d tokens", n)
	case nanos:
		return fmt.Sprintf("a cost of %g", float64(n)/1e9)
	}
	return fmt.Sprintf("%d sub-agents", n)
}

// window counts what was in the last minute, exactly: a bucket that fills up would let twice as much into one.
type window struct {
	most int
	lent int         // the part of most that accounts on other nodes have
	at   []time.Time // the oldest first, at most most of them
}

// room is how many more there may be now.
func (w *window) room(now time.Time) int {
	old := 0
	for old < len(w.at) && now.Sub(w.at[old]) >= time.Minute {
		old++
	}
	w.at = w.at[old:]
	return w.most - w.lent - len(w.at)
}

func (w *window) mark(now time.Time, n int) {
	for range n {
		w.at = append(w.at, now)
	}
}
