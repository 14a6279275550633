package budget

import (
	"context"
	"math"
	"time"

	"golang.org/x/time/rate"
)

// How many model calls a lender may not have reported when it is lost. A lender reports after each
// call, so these are the calls of the time since its last report and of lentGrace, in which it may
// not have noticed that its borrower is out of reach: failure detection takes three seconds. In any
// time a lent agent and its descendants make at most lentBurst calls and lentRate more a second,
// because an honest lender holds them to that (NewLent). Models that take half a second for an answer
// never reach this rate with two agents.
const (
	lentRate, lentBurst = 5, 10
	lentGrace           = 5 * time.Second
	// lentTokens is how many tokens a lost call counts at least: what the default limits assume.
	// Conversations grow, so it counts twice the largest one that was reported if that is more.
	lentTokens = 10_000
)

// NewLent returns the account of an agent that is lent to another node. Its calls are held to the
// rate that a borrower counts if this node is lost. Each descendant takes one of the places of the
// borrower, within the limits; nil = the limits alone count.
func NewLent(l Limits, of Places) *Account {
	a := New(l)
	a.ledger.pace, a.ledger.lent = rate.NewLimiter(lentRate, lentBurst), of
	return a
}

// waitPace waits until a lent agent may make its next call, or ctx ends.
func (l *ledger) waitPace(ctx context.Context) {
	if l.pace == nil {
		return
	}
	wait := time.NewTimer(l.pace.Reserve().Delay())
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
	}
}

// Granted returns the limits of a remote account, for the node that has to enforce them. The node has
// to ask for each place within them (OpenElsewhere). No field
// is zero, because the other node would replace a zero by its own default.
func (a *Account) Granted() Limits {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	_, most, _ := a.binding(places)
	l := Limits{
		Depth: a.depthLeft, Agents: int(most), SpawnsPerMinute: int(unlimitedFrom), Wall: a.wall,
		ModelCalls: int(a.limit[calls]), Tokens: a.limit[tokens],
	}
	for p := a; p != nil; p = p.parent {
		if p.spawns != nil {
			l.SpawnsPerMinute = min(l.SpawnsPerMinute, p.spawns.limit)
		}
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
	a.reportedAt = time.Now()
	for k := range kinds {
		if more[calls] > 0 {
			a.largest[k] = max(a.largest[k], more[k]/more[calls])
		}
	}
	a.addCached(max(min(s.Cached, a.used[tokens])-a.cached, 0))
	return more.asSpent() // its descendants were counted when it asked for their places
}

// asSpent returns the amounts of calls, tokens and cost.
func (n amounts) asSpent() Spent {
	return Spent{ModelCalls: int(n[calls]), Tokens: n[tokens], Cost: float64(n[nanos]) / 1e9}
}

// CloseLost closes a remote account whose node is gone without a last report. It counts what an
// honest node may have spent since its latest one, at most the share, and returns that.
func (a *Account) CloseLost() Spent {
	a.ledger.mu.Lock()
	var lost amounts
	if !a.closed {
		lost = a.unreported()
	}
	a.spend(lost)
	a.ledger.mu.Unlock()
	a.CloseUnknown()
	return lost.asSpent()
}

// unreported returns the most that an honest node spent since its latest report. Each agent counts
// with the full rate, because a descendant may be lent to a third node. The caller must hold mu.
func (a *Account) unreported() (lost amounts) {
	since := a.openedAt
	if a.reportedAt.After(since) {
		since = a.reportedAt
	}
	_, most, _ := a.binding(places)
	agents := 1 + min(int64(a.spawned), most)
	lost[calls] = agents * (lentBurst + int64(math.Ceil(lentRate*(time.Since(since)+lentGrace).Seconds())))
	lost[tokens] = lost[calls] * max(2*a.largest[tokens], lentTokens)
	lost[nanos] = lost[calls] * 2 * a.largest[nanos]
	if a.largest[nanos] == 0 && a.limit[nanos] < unlimitedFrom {
		lost[nanos] = lost[calls] * (a.limit[nanos] / max(a.limit[calls], 1)) // its part of the share
	}
	for k := range kinds {
		lost[k] = min(lost[k], max(a.limit[k]-a.taken[k], 0))
	}
	return lost
}

// sanitized clamps another node's report to non-negative numbers.
func (s Spent) sanitized() Spent {
	s.Agents, s.ModelCalls, s.Tokens, s.Cached = max(s.Agents, 0), max(s.ModelCalls, 0), max(s.Tokens, 0), max(s.Cached, 0)
	if !(s.Cost >= 0) { // NaN, too
		s.Cost = 0
	}
	return s
}
