package budget

import "time"

// Granted returns the limits of a remote account, for the node that has to enforce them. No field
// is zero, because the other node would replace a zero by its own default.
func (a *Account) Granted() Limits {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	l := Limits{
		Depth: a.depthLeft, Agents: int(a.limit[places]), SpawnsPerMinute: a.spawns.limit, Wall: a.wall,
		ModelCalls: int(a.limit[calls]), Tokens: a.limit[tokens],
	}
	l.Depth, l.Agents, l.SpawnsPerMinute, l.Wall = negativeIfZero(l.Depth), negativeIfZero(l.Agents), negativeIfZero(l.SpawnsPerMinute), negativeIfZero(l.Wall)
	l.ModelCalls, l.Tokens = negativeIfZero(l.ModelCalls), negativeIfZero(l.Tokens)
	if n := a.limit[nanos]; n < unlimitedFrom {
		l.Cost = negativeIfZero(float64(n) / 1e9)
	}
	return l
}

// negativeIfZero returns -1 for zero, so that the receiver does not take it for the default.
func negativeIfZero[N int | int64 | float64 | time.Duration](n N) N {
	if n <= 0 {
		return -1
	}
	return n
}

// Report books what another node reports as spent by a remote account so far. The report is not
// trusted: it counts as no less than the report before, and as no more than the share. Report returns
// what it booked.
func (a *Account) Report(s Spent) (booked Spent) {
	s = s.sanitized()
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	if a.closed {
		return booked
	}
	more := amounts{calls: int64(s.ModelCalls), tokens: s.Tokens, nanos: nano(s.Cost)}
	for k := range kinds {
		more[k] = max(min(more[k], a.limit[k]), a.used[k]) - a.used[k]
	}
	a.spend(more)
	a.addCached(max(min(s.Cached, a.used[tokens])-a.cached, 0))
	minutes := int(time.Since(a.openedAt)/time.Minute) + 1
	booked = more.asSpent()
	booked.Agents = max(0, min(s.Agents, a.spawns.limit*minutes)-a.spawned)
	for p := a; p != nil; p = p.parent {
		p.spawned += booked.Agents
	}
	return booked
}

// asSpent returns the amounts of calls, tokens and cost.
func (n amounts) asSpent() Spent {
	return Spent{ModelCalls: int(n[calls]), Tokens: n[tokens], Cost: float64(n[nanos]) / 1e9}
}

// CloseLost closes a remote account whose node is gone without a last report. All of the share may
// have been spent, so all of it counts as spent. CloseLost returns what it booked.
func (a *Account) CloseLost() Spent {
	a.ledger.mu.Lock()
	var rest amounts
	for _, k := range []kind{calls, tokens, nanos} {
		if !a.closed && a.limit[k] < unlimitedFrom {
			rest[k] = max(a.limit[k]-a.taken[k], 0)
		}
	}
	a.spend(rest)
	if !a.closed {
		a.spawned = max(a.spawned, a.spawns.limit) // for the rate
	}
	a.ledger.mu.Unlock()
	a.Close()
	return rest.asSpent()
}

// sanitized clamps another node's report to non-negative numbers.
func (s Spent) sanitized() Spent {
	s.Agents, s.ModelCalls, s.Tokens, s.Cached = max(s.Agents, 0), max(s.ModelCalls, 0), max(s.Tokens, 0), max(s.Cached, 0)
	if !(s.Cost >= 0) { // NaN, too
		s.Cost = 0
	}
	return s
}
