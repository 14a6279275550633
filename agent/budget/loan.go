package budget

import (
	"context"
	"math"
	"time"

	"golang.org/x/time/rate"

	"symbio/community"
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

// Loan is the account of an agent on another node, which this node cannot meter: the other node reports
// what is spent, and asks for each place.
type Loan struct {
	// Account is the share of the agent's parent that the loan takes.
	Account *Account

	// All are guarded by the ledger's mu. elsewhere are the accounts of the agent's descendants, as far as
	// their nodes have not said that they have ended; saidEnded is how many have.
	elsewhere []*Account
	saidEnded int
	// When the other node reported last, or the loan was opened, and the most of each kind that a call took by its reports.
	reportedAt time.Time
	largest    amounts
}

// OpenLoan is Open for an agent on another node. Calls, tokens and cost are set aside, where share has no
// number half of the rest, or a third if there is one loan already, and so on: so of many loans each
// gets enough. Places and the rate of spawns are not: the other node asks for each (OpenElsewhere).
func (a *Account) OpenLoan(ctx context.Context, share Limits) (*Loan, error) {
	l := &Loan{}
	var err error
	l.Account, err = a.open(ctx, Limits{}, share, l)
	l.reportedAt = time.Now()
	return l, err
}

// Granted returns the limits of the loan, for the node that has to enforce them. The node has to ask for
// each place within them (OpenElsewhere). No field is zero, because the other node would replace a zero
// by its own default.
func (l *Loan) Granted() Limits {
	a := l.Account
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	_, most, _ := a.binding(places)
	out := Limits{
		Depth: a.depthLeft, Agents: int(most), SpawnsPerMinute: int(unlimitedFrom), Wall: a.wall,
		ModelCalls: int(a.quotas[calls].limit), Tokens: a.quotas[tokens].limit,
	}
	for p := a; p != nil; p = p.parent {
		if p.spawns != nil {
			out.SpawnsPerMinute = min(out.SpawnsPerMinute, p.spawns.limit)
		}
	}
	out.Depth, out.Agents = negativeIfZero(out.Depth), negativeIfZero(out.Agents)
	out.SpawnsPerMinute, out.Wall = negativeIfZero(out.SpawnsPerMinute), negativeIfZero(out.Wall)
	out.ModelCalls, out.Tokens = negativeIfZero(out.ModelCalls), negativeIfZero(out.Tokens)
	if n := a.quotas[nanos].limit; n < unlimitedFrom {
		out.Cost = negativeIfZero(float64(n) / 1e9)
	}
	return out
}

// negativeIfZero returns -1 for zero, so that the receiver does not take it for the default.
func negativeIfZero[N int | int64 | float64 | time.Duration](n N) N {
	if n <= 0 {
		return -1
	}
	return n
}

// OpenElsewhere opens an account for a descendant of the agent, on its node or beyond. It takes a place
// and counts for the rate of spawns; everything else is a part of the share of the loan. Errors as for
// Open.
func (l *Loan) OpenElsewhere(ctx context.Context) error {
	one, err := l.Account.Open(ctx, Limits{}, Limits{})
	if err != nil {
		return err
	}
	l.Account.ledger.mu.Lock()
	defer l.Account.ledger.mu.Unlock()
	if l.Account.closed {
		l.Account.ledger.giveBack(one.close())
		return community.ErrStopped
	}
	l.elsewhere = append(l.elsewhere, one)
	return nil
}

// UndoElsewhere releases the place of an OpenElsewhere that the other node does not know.
func (l *Loan) UndoElsewhere() {
	l.Account.ledger.mu.Lock()
	defer l.Account.ledger.mu.Unlock()
	l.Account.ledger.giveBack(l.closeElsewhere(1))
}

// EndedElsewhere releases places of OpenElsewhere. total is how many descendants have ended since the
// loan was opened, as the other node says; it counts as no less than before.
func (l *Loan) EndedElsewhere(total int) {
	l.Account.ledger.mu.Lock()
	defer l.Account.ledger.mu.Unlock()
	if more := total - l.saidEnded; more > 0 {
		l.saidEnded = total
		l.Account.ledger.giveBack(l.closeElsewhere(more))
	}
}

// closeElsewhere closes up to n accounts of descendants elsewhere, and returns how many places of the
// borrower are free with them. The caller must hold mu.
func (l *Loan) closeElsewhere(n int) (freed int) {
	n = min(n, len(l.elsewhere))
	for _, one := range l.elsewhere[:n] {
		freed += one.close()
	}
	l.elsewhere = l.elsewhere[n:]
	return freed
}

// CloseUnknown is Close for a loan whose agents may still live: until their node must have noticed that
// it is alone, their places are not free.
func (l *Loan) CloseUnknown() {
	l.Account.ledger.mu.Lock()
	defer l.Account.ledger.mu.Unlock()
	l.closeWith(0)
}

// CloseEnded is Close for a loan whose agent has ended, and in all total of its descendants, as the other node says. Others
// were on a node that was lost to it: their places stay as after CloseUnknown.
func (l *Loan) CloseEnded(total int) {
	l.EndedElsewhere(total)
	l.Account.ledger.mu.Lock()
	defer l.Account.ledger.mu.Unlock()
	l.closeWith(1)
}

// closeWith closes the loan, of whose agents so many have ended. The caller must hold mu.
func (l *Loan) closeWith(ended int) {
	a := l.Account
	if a.closed {
		return
	}
	a.ledger.giveBack(ended)
	if n := a.close() - ended; n > 0 {
		a.parent.adjust(places, int64(n))
		a.ledger.unknown = append(a.ledger.unknown, unknownEnds{time.Now().Add(lentGrace), a, n})
	}
}

// Report books what the other node reports as spent so far. The report is not trusted: it counts as no
// less than the report before, and as no more than the share. Report returns the booked spending.
func (l *Loan) Report(s Spent) (booked Spent) {
	a := l.Account
	s = s.sanitized()
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	if a.closed {
		return booked
	}
	more := amounts{calls: int64(s.ModelCalls), tokens: s.Tokens, nanos: nano(s.Cost)}
	for k := range kinds {
		more[k] = max(min(more[k], a.quotas[k].limit), a.used.amounts[k]) - a.used.amounts[k]
	}
	a.spend(more)
	l.reportedAt = time.Now()
	for k := range kinds {
		if more[calls] > 0 {
			l.largest[k] = max(l.largest[k], more[k]/more[calls])
		}
	}
	a.addCached(max(min(s.Cached, a.used.amounts[tokens])-a.used.cached, 0))
	return more.asSpent() // its descendants were counted when it asked for their places
}

// asSpent returns the amounts of calls, tokens and cost.
func (n amounts) asSpent() Spent {
	return Spent{ModelCalls: int(n[calls]), Tokens: n[tokens], Cost: float64(n[nanos]) / 1e9}
}

// CloseLost closes a loan whose node is gone without a last report. It counts what an honest node may
// have spent since its latest one, at most the share, and returns that.
func (l *Loan) CloseLost() Spent {
	l.Account.ledger.mu.Lock()
	var lost amounts
	if !l.Account.closed {
		lost = l.unreported()
	}
	l.Account.spend(lost)
	l.Account.ledger.mu.Unlock()
	l.CloseUnknown()
	return lost.asSpent()
}

// unreported returns the most that an honest node spent since its latest report. Each agent counts
// with the full rate, because a descendant may be lent to a third node. The caller must hold mu.
func (l *Loan) unreported() (lost amounts) {
	a := l.Account
	_, most, _ := a.binding(places)
	agents := 1 + min(int64(a.used.spawned), most)
	lost[calls] = agents * (lentBurst + int64(math.Ceil(lentRate*(time.Since(l.reportedAt)+lentGrace).Seconds())))
	lost[tokens] = lost[calls] * max(2*l.largest[tokens], lentTokens)
	lost[nanos] = lost[calls] * 2 * l.largest[nanos]
	if l.largest[nanos] == 0 && a.quotas[nanos].limit < unlimitedFrom {
		lost[nanos] = lost[calls] * (a.quotas[nanos].limit / max(a.quotas[calls].limit, 1)) // its part of the share
	}
	for k := range kinds {
		lost[k] = min(lost[k], max(a.quotas[k].limit-a.quotas[k].taken, 0))
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
