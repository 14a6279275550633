package budget

import "time"

// Granted returns the limits of a remote account, for the node that has to keep to them. No field is zero.
func (a *Account) Granted() Limits {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	l := Limits{
		Depth: a.below, Agents: int(a.limit[places]), SpawnsPerMinute: a.spawns.most, Wall: a.wall,
		ModelCalls: int(a.limit[calls]), Tokens: a.limit[tokens],
	}
	l.Depth, l.Agents, l.SpawnsPerMinute, l.Wall = orNone(l.Depth), orNone(l.Agents), orNone(l.SpawnsPerMinute), orNone(l.Wall)
	l.ModelCalls, l.Tokens = orNone(l.ModelCalls), orNone(l.Tokens)
	if n := a.limit[nanos]; n < boundless {
		l.Cost = orNone(float64(n) / 1e9)
	}
	return l
}

// orNone writes zero as -1, so that it is not taken for the default.
func orNone[N int | int64 | float64 | time.Duration](n N) N {
	if n <= 0 {
		return -1
	}
	return n
}

// Report counts what a remote account has spent so far, as the other node says: never less than it said before, nor more
// than the share.
func (a *Account) Report(s Spent) {
	s = s.sanitized()
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	if a.closed {
		return
	}
	more := amounts{calls: int64(s.ModelCalls), tokens: s.Tokens, nanos: nano(s.Cost)}
	for k := range kinds {
		more[k] = max(min(more[k], a.limit[k]), a.used[k]) - a.used[k]
	}
	a.spend(more)
	minutes := int(time.Since(a.born)/time.Minute) + 1
	for more := min(s.Agents, a.spawns.most*minutes) - a.made; more > 0; more = 0 {
		for p := a; p != nil; p = p.parent {
			p.made += more
		}
	}
}

// Lost closes a remote account whose node is gone: all of the share may have been spent, so all of it counts.
func (a *Account) Lost() {
	a.ledger.mu.Lock()
	var rest amounts
	for _, k := range []kind{calls, tokens, nanos} {
		if !a.closed && a.limit[k] < boundless {
			rest[k] = max(a.limit[k]-a.taken[k], 0)
		}
	}
	a.spend(rest)
	if !a.closed {
		a.made = max(a.made, a.spawns.most) // for the rate
	}
	a.ledger.mu.Unlock()
	a.Close()
}

// sanitized clamps another node's report to non-negative numbers.
func (s Spent) sanitized() Spent {
	s.Agents, s.ModelCalls, s.Tokens = max(s.Agents, 0), max(s.ModelCalls, 0), max(s.Tokens, 0)
	if !(s.Cost >= 0) { // NaN, too
		s.Cost = 0
	}
	return s
}
