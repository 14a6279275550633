package budget

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"symbio/community"
)

// ErrExceeded is wrapped by the errors of all limits. The call that would have exceeded the limit
// did nothing.
var ErrExceeded = errors.New("over the budget")

// ledger is shared by the accounts of one tree of agents. One lock for the whole tree keeps the
// invariant simple: a reservation changes several accounts at once.
type ledger struct {
	pace    *rate.Limiter // of model calls; nil = no limit; constant
	mu      sync.Mutex
	changed chan struct{} // closed when something is released; nil = no call waits; guarded by mu

	lent    Places        // nil = the places of the tree are its own; constant
	ended   int           // places of lent that are given back; guarded by mu
	unknown []unknownEnds // guarded by mu
}

// Account is the budget of an agent and its descendants. For each kind it has a share of its own,
// or draws on the nearest account above that has one. The taken part of a share is the sum of what
// is spent, what calls in flight may spend at most, what is reserved for summaries, and the shares
// of accounts below. So the shares of a tree always sum to the whole, and no limit is exceeded. All
// fields are guarded by the ledger's mu, except those marked constant.
type Account struct {
	ledger       *ledger
	parent       *Account
	wall         time.Duration  // constant
	timeExceeded *ExceededError // the error of a task that takes longer; constant
	generation   int            // 0 is the first agent's; constant
	depthLeft    int            // how many generations of descendants it may have; constant
	share        Limits         // the share that was requested; constant
	loan         *Loan          // nil = its agent runs on this node; constant

	quotas [kinds]quota
	spawns *spawnWindow // nil = only the parent's limit counts

	used     usage // over all tasks
	base     usage // used when the task began
	openedAt time.Time
	closed   bool
	lent     int // loans from it that are open
}

// quota is what an account has of one kind.
type quota struct {
	own      bool  // there is a share; constant; true for an account without a parent
	limit    int64 // the share
	upper    int64 // without a share: the most that it may draw; 0 = no limit; constant
	taken    int64 // from the share, or through it from the share above
	reserved int64 // the part of taken that is reserved for calls in flight
	spent    int64 // the part of taken that is spent for good
	alerted  bool  // Task.Alerts has told of it in this task; the alert of places stands for the time
}

// usage is what an agent and all its descendants used.
type usage struct {
	amounts amounts
	cached  int64 // tokens that came from a cache
	spawned int   // descendants
}

// New returns the account of an agent without a parent. Zero fields of l take the defaults.
func New(l Limits) *Account {
	l = l.WithDefaults()
	a := &Account{
		ledger: &ledger{}, wall: max(l.Wall, 0), depthLeft: max(l.Depth, 0), share: l,
		spawns: &spawnWindow{limit: max(l.SpawnsPerMinute, 0)}, openedAt: time.Now(),
	}
	for k, n := range l.amounts() {
		a.quotas[k] = quota{own: true, limit: max(n, 0)}
	}
	if l.Cost == 0 {
		a.quotas[nanos].limit = unlimited
	}
	a.timeExceeded = newTimeExceeded(a.wall)
	return a
}

// Open opens the account of a new descendant. The error wraps ErrExceeded and names the limit.
//
// share is set aside for the new account. For zero fields it draws on its parent's share, as its
// siblings do. upper limits it without setting anything aside.
//
// Open waits for places that are perhaps free already (Loan.CloseLost), and in a tree
// that is lent for the answer of the borrower. It returns the error of the budget if ctx ends before.
func (a *Account) Open(ctx context.Context, upper, share Limits) (*Account, error) {
	return a.open(ctx, upper, share, nil)
}

// open is Open, for the account of a loan if that is not nil.
func (a *Account) open(ctx context.Context, upper, share Limits, loan *Loan) (*Account, error) {
	if err := a.awaitRoom(ctx); err != nil {
		return nil, err
	}
	if err := a.ledger.take(ctx); err != nil {
		return nil, err
	}
	share.Depth, share.Wall = minLimit(share.Depth, upper.Depth, 0), minLimit(share.Wall, upper.Wall, 0)
	share.SpawnsPerMinute = minLimit(share.SpawnsPerMinute, upper.SpawnsPerMinute, 0)
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	child := &Account{
		ledger: a.ledger, parent: a, wall: a.wall, generation: a.generation + 1, depthLeft: a.depthLeft - 1, share: share, loan: loan,
		openedAt: time.Now(),
	}
	if share.Wall != 0 {
		child.wall = min(a.wall, max(share.Wall, 0))
	}
	child.timeExceeded = newTimeExceeded(child.wall)
	if share.Depth != 0 {
		child.depthLeft = min(child.depthLeft, max(share.Depth, 0))
	}
	if err := child.allocate(upper.amounts()); err != nil {
		a.ledger.giveBack(1)
		return nil, err
	}
	for p := a; p != nil; p = p.parent {
		p.used.spawned++
	}
	return child, nil
}

func newTimeExceeded(wall time.Duration) *ExceededError {
	return &ExceededError{Limit: wall.String() + " for one task"}
}

// Wall returns how long one task may take.
func (a *Account) Wall() time.Duration { return a.wall }

// Limits returns the limits of the account itself. Where a field is zero, it draws on the account
// above.
func (a *Account) Limits() Limits {
	l := a.share
	l.Wall, l.Depth = a.wall, a.depthLeft
	return l
}

// TimeExceeded returns the error of a task that takes longer than Wall.
func (a *Account) TimeExceeded() error { return a.timeExceeded }

// allocate takes the place and the share of a new account from the accounts above it, and sets its upper limits. With an
// error it takes nothing. The caller must hold mu.
func (a *Account) allocate(upper amounts) error {
	if err := a.parent.room(); err != nil {
		return err
	}
	want := a.share.amounts()
	free := a.parent.free()
	free[places]--
	for k := range kinds {
		q := &a.quotas[k]
		q.upper = upper[k]
		switch {
		case a.loan != nil && want[k] == 0 && k != places:
			want[k] = min(free[k]/int64(a.parent.lent+2), 4*unlimitedFrom) // of an unlimited cost there is enough for all
		case want[k] == 0:
			continue
		}
		if q.upper != 0 {
			want[k] = min(want[k], q.upper)
		}
		if want[k] > free[k] {
			return fmt.Errorf("%w: no share of %s, because only %s are left", ErrExceeded, k.words(want[k]), k.words(max(free[k], 0)))
		}
		q.own, q.limit = true, max(want[k], 0)
	}
	if a.loan != nil && (a.quotas[calls].limit < 1 || a.quotas[tokens].limit < 1) {
		return fmt.Errorf("%w: nothing is left to share", ErrExceeded)
	}
	a.allocateSpawnRate()
	for k, q := range a.quotas {
		if q.own {
			a.parent.adjust(kind(k), q.limit)
		}
	}
	a.parent.adjust(places, 1)
	if a.loan != nil {
		a.parent.lent++
	}
	return nil
}

// room returns why the account can have no descendant more now; nil = it can. The caller must hold mu.
func (a *Account) room() error {
	if a.closed {
		return community.ErrStopped
	}
	if a.depthLeft <= 0 {
		return fmt.Errorf("%w: agents may be nested %d deep", ErrExceeded, a.generation)
	}
	if _, most, left := a.binding(places); left < 1 {
		return fmt.Errorf("%w: %d sub-agents live already", ErrExceeded, most)
	}
	for _, k := range []kind{calls, tokens} {
		if _, _, left := a.binding(k); left < 1 {
			return fmt.Errorf("%w: %s are used up", ErrExceeded, a.limitOf(k))
		}
	}
	now := time.Now()
	for p := a; p != nil; p = p.parent {
		if p.spawns != nil && p.spawns.remaining(now) < 1 {
			return fmt.Errorf("%w: %d sub-agents a minute", ErrExceeded, p.spawns.limit)
		}
	}
	return nil
}

// allocateSpawnRate counts the spawn in every rate limit above. The caller must hold mu.
func (a *Account) allocateSpawnRate() {
	if a.share.SpawnsPerMinute != 0 {
		a.spawns = &spawnWindow{limit: max(a.share.SpawnsPerMinute, 0)}
	}
	at := time.Now()
	if a.loan != nil || a.parent.loan != nil {
		at = at.Add(lentGrace) // the other node may spawn it that much later
	}
	for p := a.parent; p != nil; p = p.parent {
		if p.spawns != nil {
			p.spawns.at = append(p.spawns.at, at)
		}
	}
}

// pool returns the account whose share of a kind this account draws on.
func (a *Account) pool(k kind) *Account {
	for !a.quotas[k].own {
		a = a.parent
	}
	return a
}

// free returns how much of each kind the account may still take.
func (a *Account) free() (left amounts) {
	for k := range kinds {
		_, _, left[k] = a.binding(k)
	}
	return left
}

// binding returns the account whose limit of a kind is reached first, that limit, and what is left
// of it.
func (a *Account) binding(k kind) (by *Account, limit, left int64) {
	left = unlimited
	for p := a; ; p = p.parent {
		q := &p.quotas[k]
		most := q.upper
		if q.own {
			most = q.limit
		} else if most == 0 {
			continue
		}
		if rest := max(most, 0) - q.taken; by == nil || rest < left {
			by, limit, left = p, max(most, 0), rest
		}
		if q.own {
			return by, limit, left
		}
	}
}

// each calls f for the quota of the account and of those above it, up to the one that has a share of the kind. It
// passes closed accounts, which have returned their share to the account above.
func (a *Account) each(k kind, f func(*quota)) {
	for p := a; p != nil; p = p.parent {
		f(&p.quotas[k])
		if p.quotas[k].own && !p.closed {
			return
		}
	}
}

// adjust takes n of a kind; a negative n releases it.
func (a *Account) adjust(k kind, n int64) { a.each(k, func(q *quota) { q.taken += n }) }

// Close releases the place and the rest of the share. The spending moves to the accounts
// above. It does nothing if the account is closed or has no parent.
func (a *Account) Close() {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	if a.closed || a.parent == nil {
		return
	}
	a.ledger.giveBack(a.close())
}

// close is Close, and returns how many places of the borrower are free with it. The caller must hold mu.
func (a *Account) close() (freed int) {
	if a.loan != nil {
		freed = a.loan.closeElsewhere(len(a.loan.elsewhere))
		a.parent.lent--
	}
	a.closed = true
	a.parent.adjust(places, -1)
	for k := range kinds {
		if q := &a.quotas[k]; q.own {
			a.parent.each(k, func(above *quota) {
				above.taken -= q.limit - q.taken
				above.reserved += q.reserved
				above.spent += q.spent
			})
			q.limit, q.taken, q.spent = q.limit-q.spent, q.taken-q.spent, 0 // the share that Reopen takes again
		}
	}
	a.ledger.broadcast()
	return freed + 1
}

// Reopen takes again what Close released, for a restarted agent. The error is community.ErrStopped
// if the parent's account is closed, or wraps ErrExceeded if other agents use the share now. In a tree
// that is lent it waits for the borrower.
func (a *Account) Reopen(ctx context.Context) error {
	a.ledger.mu.Lock()
	has := a.parent == nil || !a.closed
	a.ledger.mu.Unlock()
	if has {
		return nil
	}
	if err := a.ledger.take(ctx); err != nil {
		return err
	}
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	err := a.reopen()
	if err != nil {
		a.ledger.giveBack(1)
	}
	return err
}

// reopen is Reopen of a closed account, with a place of the borrower. The caller must hold mu.
func (a *Account) reopen() error {
	if a.parent.closed {
		return community.ErrStopped
	}
	for k := range kinds {
		if q := &a.quotas[k]; q.own {
			q.limit, q.taken, q.spent = q.limit-q.spent, q.taken-q.spent, 0
		}
	}
	free := a.parent.free()
	free[places]--
	for k, q := range a.quotas {
		if q.own && q.limit > free[k] || free[places] < 0 {
			return fmt.Errorf("%w: its share was given to other agents while it was stopped", ErrExceeded)
		}
	}
	a.closed = false
	a.parent.adjust(places, 1)
	for k, q := range a.quotas {
		if k := kind(k); q.own {
			a.parent.adjust(k, q.limit-q.taken)
			a.parent.each(k, func(above *quota) { above.reserved -= q.reserved })
		}
	}
	return nil
}

// Renew starts a task of an agent without a parent: spending of earlier tasks no longer counts.
// Reservations of calls that are still in flight stay.
func (a *Account) Renew() {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	a.base, a.openedAt = a.used, time.Now()
	for k := range kinds {
		q := &a.quotas[k]
		q.taken, q.spent, q.alerted = q.taken-q.spent, 0, false
	}
}

// spend books what was used. The caller must hold mu.
func (a *Account) spend(n amounts) {
	for k := range kinds {
		a.each(k, func(q *quota) { q.spent += n[k]; q.taken += n[k] })
	}
	for p := a; p != nil; p = p.parent {
		for k := range kinds {
			p.used.amounts[k] += n[k]
		}
	}
}

// addCached counts tokens that came from a cache. No limit is about them. The caller must hold mu.
func (a *Account) addCached(n int64) {
	for p := a; p != nil; p = p.parent {
		p.used.cached += n
	}
}

// Charge books what a task spent before the node was restarted. Renew must not follow it in the same
// task.
func (a *Account) Charge(s Spent) {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	a.spend(amounts{calls: int64(s.ModelCalls), tokens: s.Tokens, nanos: nano(s.Cost)})
	a.addCached(s.Cached)
	a.used.spawned += s.Agents
}

// Total returns what was used since the task began (Renew), or since the account was opened.
func (a *Account) Total() Spent {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	now, then := a.used, a.base
	return Spent{
		Agents: now.spawned - then.spawned, ModelCalls: int(now.amounts[calls] - then.amounts[calls]), Tokens: now.amounts[tokens] - then.amounts[tokens],
		Cached: now.cached - then.cached, Cost: float64(now.amounts[nanos]-then.amounts[nanos]) / 1e9, Wall: time.Since(a.openedAt).Seconds(),
	}
}

// broadcast wakes the calls that wait for a release. The caller must hold mu.
func (l *ledger) broadcast() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// wait returns a channel that is closed at the next release. The caller must hold mu.
func (l *ledger) wait() <-chan struct{} {
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

// words returns an amount of a kind in words, for errors.
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

// spawnWindow limits the spawns in any minute. It keeps their times: a token bucket would allow
// twice as many in one minute.
type spawnWindow struct {
	limit int
	at    []time.Time // times of spawns
}

// remaining returns how many spawns are allowed now. It forgets those that are older than a minute.
func (w *spawnWindow) remaining(now time.Time) int {
	w.at = slices.DeleteFunc(w.at, func(at time.Time) bool { return now.Sub(at) >= time.Minute })
	return w.limit - len(w.at)
}
