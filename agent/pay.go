package agent

import (
	"context"
	"errors"
	"slices"
	"time"

	"symbio/agent/llm"
	"symbio/community"
)

// using gives the agent a model, which it pays for out of its account.
func (l *life) using(m llm.Model) *life {
	l.raw, l.model = m, metered{Model: m, purse: l.paying, sizes: &sizes{}}
	return l
}

// paying is the purse of the task that the agent does; nil = it does none.
func (l *life) paying() *purse {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.purse
}

// pay is what the agent pays a task from, and when there is no more time for it.
func (l *life) pay(ctx context.Context, s community.Signal) (*purse, time.Time) {
	if l.parent == nil && !l.forLife && !l.ownIn(s.Requester) {
		l.account.renew()
	}
	now := time.Now()
	end := now.Add(l.account.wall)
	if at, ok := ctx.Deadline(); ok && at.Before(end) && (l.parent != nil || l.lent != nil) {
		end = at // that of who gave it the task
	}
	return newPurse(l.account, now, end), end
}

// ownIn reports whether a task comes from the agent's own tree: then it goes on with the budget that it has, or its
// sub-agents could have it renewed for ever.
func (l *life) ownIn(requesters []string) bool {
	if slices.Contains(requesters, l.address()) {
		return true
	}
	for _, address := range requesters {
		for r := l.factory.register.find(address); r != nil; r = r.parent {
			if r == l {
				return true
			}
		}
	}
	return false
}

// overdrawn is how the task ended if it reached a limit: what the model said then were its last words.
func (l *life) overdrawn(text string, err error) error {
	p := l.paying()
	if p == nil {
		return err
	}
	p.account.ledger.mu.Lock()
	over := p.over
	p.account.ledger.mu.Unlock()
	var known *OverBudget
	switch {
	case over == "" || errors.As(err, &known):
		return err
	case err != nil:
		return &OverBudget{Limit: over + " (" + err.Error() + ")"}
	}
	return &OverBudget{Limit: over, Said: text}
}

// inTime is the context of a task's tools, which end early enough for last words.
func (l *life) inTime(ctx context.Context) context.Context {
	p := l.paying()
	if p == nil {
		return ctx
	}
	ctx, p.stop = context.WithDeadlineCause(ctx, p.until, l.account.late)
	return ctx
}

// spent is what the agent and those below it have used.
func (l *life) spent() *Spent {
	s := l.account.total()
	return &s
}

// Spent is what a living agent of this factory and its descendants have used: a first agent since its last task began, or
// in its life (Order.ForLife), others since they were made.
func (f *Factory) Spent(id community.MemberID) (Spent, bool) {
	l := f.register.member(id)
	if l == nil {
		return Spent{}, false
	}
	return l.account.total(), true
}

// rejoin takes again, after a restart, what ended with the agent before: its place, and that its parent knows it.
func (l *life) rejoin() error {
	if l.parent == nil {
		return nil
	}
	if err := l.account.reopen(); err != nil {
		return err
	}
	if err := l.parent.adopt(l.self.ID, nil); err != nil {
		l.account.close()
		return err
	}
	return nil
}
