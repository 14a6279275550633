package budget

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"symbio/community"
)

// ErrExceeded: a limit of the budget is reached. The call that would have gone over it did nothing.
var ErrExceeded = errors.New("over the budget")

// ledger is what the accounts of one tree of agents have in common.
type ledger struct {
	mu      sync.Mutex
	changed chan struct{} // closed when something is given back; nil = no one waits; guarded by mu
}

// Account is what an agent and its descendants may use, and what they have used. Of each kind it has a share of its own, or
// draws on the nearest account above that has one. What is taken of a share is what is spent, what calls in flight may
// spend at most, what is kept for last words, and the shares of accounts below: so that the sum over the tree is always
// the whole. All fields are guarded by the ledger's mu.
type Account struct {
	ledger     *ledger
	parent     *Account
	wall       time.Duration  // constant
	late       *ExceededError // how a task ends that takes longer; constant
	generation int            // 0 is the first agent's; constant
	below      int            // how many generations may stand below it; constant
	share      Limits         // what was asked for it; constant
	remote     bool           // its agent lives on another node; constant

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

// New returns the account of an agent without a parent.
func New(l Limits) *Account {
	l = l.WithDefaults()
	a := &Account{
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

// Open opens the account of one more descendant, or returns an error that wraps ErrExceeded and names the limit.
//
// Zero fields of share are no share: the account draws on its parent's, as its siblings do. It may use no more than upper,
// for which nothing is set aside. With remote it is for an agent on another node: everything is shared out, half of what is
// left where share does not say how much.
func (a *Account) Open(upper, share Limits, remote bool) (*Account, error) {
	share.Depth, share.SpawnsPerMinute, share.Wall = atMost(share.Depth, upper.Depth, 0), atMost(share.SpawnsPerMinute, upper.SpawnsPerMinute, 0), atMost(share.Wall, upper.Wall, 0)
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	child := &Account{
		ledger: a.ledger, parent: a, wall: a.wall, generation: a.generation + 1, below: a.below - 1, share: share, remote: remote, most: upper.amounts(), born: time.Now(),
	}
	if share.Wall != 0 {
		child.wall = min(a.wall, max(share.Wall, 0))
	}
	child.late = tooLate(child.wall)
	if share.Depth != 0 {
		child.below = min(child.below, max(share.Depth, 0))
	}
	if a.below <= 0 {
		return nil, fmt.Errorf("%w: agents may be nested %d deep", ErrExceeded, a.generation)
	}
	if err := child.carve(); err != nil {
		return nil, err
	}
	for p := a; p != nil; p = p.parent {
		p.made++
	}
	return child, nil
}

func tooLate(wall time.Duration) *ExceededError {
	return &ExceededError{Limit: wall.String() + " for one task"}
}

// Wall returns how long a task may take.
func (a *Account) Wall() time.Duration { return a.wall }

// TimeExceeded returns the error of a task that takes longer than Wall.
func (a *Account) TimeExceeded() error { return a.late }

// IsRemote reports whether the account is of an agent on another node.
func (a *Account) IsRemote() bool { return a.remote }

// carve takes the place and the share of a new account out of the accounts above it. With an error it takes nothing.
func (a *Account) carve() error {
	if a.parent.closed {
		return community.ErrStopped
	}
	want := a.share.amounts()
	free := a.parent.free()
	if free[places] < 1 {
		_, most, _ := a.parent.binding(places)
		return fmt.Errorf("%w: %d sub-agents live already", ErrExceeded, most)
	}
	for _, k := range []kind{calls, tokens} {
		if free[k] < 1 {
			return fmt.Errorf("%w: %s are used up", ErrExceeded, a.parent.limitOf(k))
		}
	}
	free[places]--
	for k := range kinds {
		switch {
		case a.remote && want[k] == 0:
			want[k] = free[k] / 2
		case want[k] == 0:
			continue
		}
		if a.most[k] != 0 {
			want[k] = min(want[k], a.most[k])
		}
		if want[k] > free[k] {
			return fmt.Errorf("%w: no share of %s, because only %s are left", ErrExceeded, k.words(want[k]), k.words(max(free[k], 0)))
		}
		a.own[k], a.limit[k] = true, max(want[k], 0)
	}
	if a.remote && (a.limit[calls] < 1 || a.limit[tokens] < 1) {
		return fmt.Errorf("%w: nothing is left to share", ErrExceeded)
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

// carveRate counts the spawn against every rate limit above, and takes the rate of a remote account out of its parent's:
// this node cannot watch over it there.
func (a *Account) carveRate() error {
	now := time.Now()
	room := int(endless)
	for p := a.parent; p != nil; p = p.parent {
		if p.spawns == nil {
			continue
		}
		if p.spawns.room(now) < 1 {
			return fmt.Errorf("%w: %d sub-agents a minute", ErrExceeded, p.spawns.most)
		}
		room = min(room, p.spawns.room(now)-1) // what was made in the last minute counts beside what may be made there
	}
	if a.share.SpawnsPerMinute != 0 || a.remote {
		most := max(min(a.share.SpawnsPerMinute, room), 0)
		if a.share.SpawnsPerMinute == 0 {
			most = room / 2
		}
		a.spawns = &window{most: most}
	}
	for p := a.parent; p != nil; p = p.parent {
		if p.spawns != nil {
			p.spawns.mark(now, 1)
			if a.remote {
				p.spawns.lent += a.spawns.most
			}
		}
	}
	return nil
}

// pool returns the account whose share of a kind a draws on.
func (a *Account) pool(k kind) *Account {
	for !a.own[k] {
		a = a.parent
	}
	return a
}

// free returns what is left of each kind.
func (a *Account) free() (left amounts) {
	for k := range kinds {
		_, _, left[k] = a.binding(k)
	}
	return left
}

// binding returns the account whose limit of a kind is the nearest, that limit, and what is left of it.
func (a *Account) binding(k kind) (by *Account, limit, left int64) {
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

// each calls f for the account and those above it, up to the one that has a share of the kind. A closed account has given
// its share back: then each goes on to those that have it now.
func (a *Account) each(k kind, f func(*Account)) {
	for p := a; p != nil; p = p.parent {
		f(p)
		if p.own[k] && !p.closed {
			return
		}
	}
}

// adjust takes n of a kind, or gives it back.
func (a *Account) adjust(k kind, n int64) { a.each(k, func(p *Account) { p.taken[k] += n }) }

// Close gives back the place and what is left of the share. It does nothing to a closed account, or to one without a parent.
func (a *Account) Close() {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	if a.closed || a.parent == nil {
		return
	}
	a.closed = true
	a.parent.adjust(places, -1)
	for k, own := range a.own {
		if k := kind(k); own {
			a.parent.each(k, func(p *Account) {
				p.taken[k] -= a.limit[k] - a.taken[k]
				p.flying[k] += a.flying[k]
				p.spent[k] += a.spent[k]
			})
			a.limit[k] -= a.spent[k] // what it has when it is opened again
			a.taken[k] -= a.spent[k]
			a.spent[k] = 0
		}
	}
	if a.remote {
		now := time.Now()
		for p := a.parent; p != nil; p = p.parent {
			if p.spawns != nil {
				p.spawns.lent -= a.spawns.most
				p.spawns.mark(now, min(a.spawns.most, a.made)) // it is not known when they were
			}
		}
	}
	a.ledger.broadcast()
}

// Reopen takes again what Close gave back, for an agent that was restarted.
func (a *Account) Reopen() error {
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
			return fmt.Errorf("%w: what it had is somebody else's now", ErrExceeded)
		}
	}
	a.closed = false
	a.parent.adjust(places, 1)
	for k, own := range a.own {
		if k := kind(k); own {
			a.parent.adjust(k, a.limit[k]-a.taken[k])
			a.parent.each(k, func(p *Account) { p.flying[k] -= a.flying[k] })
		}
	}
	return nil
}

// Renew begins a task of an agent without a parent: earlier spending no longer counts.
func (a *Account) Renew() {
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
func (a *Account) spend(n amounts) {
	for k := range kinds {
		if n[k] != 0 {
			a.each(k, func(p *Account) { p.spent[k] += n[k]; p.taken[k] += n[k] })
		}
	}
	for p := a; p != nil; p = p.parent {
		for k := range kinds {
			p.used[k] += n[k]
		}
	}
}

// Total returns what was used since the task began (Renew), or since the account was opened.
func (a *Account) Total() Spent {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	return Spent{
		Agents: a.made - a.base.Agents, ModelCalls: int(a.used[calls]) - a.base.ModelCalls, Tokens: a.used[tokens] - a.base.Tokens,
		Cost: (float64(a.used[nanos]) - a.base.Cost) / 1e9, Wall: time.Since(a.born).Seconds(),
	}
}

// broadcast wakes those that wait for something to be given back. It needs mu.
func (l *ledger) broadcast() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// wait returns a channel that is closed when something is given back. It needs mu.
func (l *ledger) wait() <-chan struct{} {
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

// words returns a number of a kind in words.
func (k kind) words(n int64) string {
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

// window counts the spawns of the last minute exactly: a token bucket would let twice as many into one.
type window struct {
	most int
	lent int         // the part of most that remote accounts have
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
