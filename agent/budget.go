package agent

import (
	"context"
	"time"

	"symbio/agent/budget"
	"symbio/agent/session"
	"symbio/community"
)

// startTask begins a task. It returns the context of the task, which ends at the budget's time
// limit or when the task is interrupted, and a function that the caller must call when the task is
// done. An agent without a parent starts with a full budget. A sub-agent or lent agent also ends at
// its caller's deadline.
func (i *instance) startTask(ctx context.Context, s community.Signal, resume bool) (context.Context, func(), error) {
	if i.parent == nil && !i.order.LifetimeBudget && !i.permissions.isFromOwnTree(s.Requester) {
		i.task.account.Renew()
	}
	now := time.Now()
	end := now.Add(i.task.account.Wall())
	if resume {
		ran, err := i.chargeResumed(ctx)
		if err != nil {
			return nil, nil, err
		}
		end = end.Add(-ran)
	}
	if at, ok := ctx.Deadline(); ok && at.Before(end) && (i.parent != nil || i.permissions.borrower() != nil) {
		end = at // the caller's deadline
	}
	ctx, done := i.task.start(ctx, budget.NewTask(i.task.account, now, end))
	return ctx, done, nil
}

// alertShare is the share of a task's budget at which people get a notice: late enough to be true, and early enough to
// give the task more.
const alertShare = 0.8

// alert tells people when alertShare of the task's budget is used. The budget of a lent agent is the borrower's, which
// tells its own people.
func (t *runningTask) alert(e *events) {
	if task := t.currentBudget(); task != nil && e.permissions.borrower() == nil {
		for e.parent != nil {
			e = e.parent
		}
		for _, text := range task.Alerts(alertShare) {
			e.notice(text)
		}
	}
}

// chargePast books what the agent and its sub-agents spent in the session from an entry on.
func (i *instance) chargePast(ctx context.Context, from int64) error {
	spent, err := i.record.spent(ctx, from)
	if err == nil {
		i.task.account.Charge(spent)
	}
	return err
}

// chargeResumed books what the interrupted task and its sub-agents spent before the restart, and returns for
// how long the task ran.
func (i *instance) chargeResumed(ctx context.Context) (ran time.Duration, err error) {
	past := session.Latest(i.record.past)
	if i.parent != nil || len(past) == 0 {
		return 0, nil // a sub-agent draws on its parent's budget
	}
	if !i.order.LifetimeBudget { // else Spawn has charged it
		err = i.chargePast(ctx, past[0].ID)
	}
	return session.RunningTime(past), err
}

// Spent returns the use of a running agent of this factory and its descendants: since the last task
// began for an agent without a parent, else since the spawn (also with Order.LifetimeBudget). The
// second result is false if there is no such agent.
func (f *Factory) Spent(id community.MemberID) (budget.Spent, bool) {
	i := f.instances.byID(id)
	if i == nil {
		return budget.Spent{}, false
	}
	return i.task.account.Total(), true
}

// Session describes the session of a running agent of this factory; the zero Info if nothing of it is
// kept.
func (f *Factory) Session(id community.MemberID) session.Info {
	i := f.instances.byID(id)
	if i == nil {
		return session.Info{}
	}
	return i.record.info()
}

// FlushSessions returns when all records of the agents of this factory are durable. The error names an agent whose
// entries are lost; its own next commit has it, too.
func (f *Factory) FlushSessions() error {
	if f.cfg.Journal == nil {
		return nil
	}
	return f.cfg.Journal.Flush()
}

// reopenAccount reserves the agent's place in the budget again after a restart. It fails with
// community.ErrStopped if the parent has ended, and with budget.ErrExceeded if the place is in use.
func (i *instance) reopenAccount() error {
	if i.parent == nil {
		return nil
	}
	if i.parent.agent.Load().subAgents.team.IsClosed() {
		return community.ErrStopped
	}
	return i.task.account.Reopen(context.Background()) // Places.Take is bounded
}
