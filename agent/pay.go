package agent

import (
	"context"
	"slices"
	"time"

	"symbio/agent/budget"
	"symbio/agent/llm"
	"symbio/community"
)

// withModel gives the agent a model, which it pays for out of its account.
func (i *instance) withModel(m llm.Model) *instance {
	i.unmetered, i.model = m, budget.Meter(m, i.task.paysFrom)
	return i
}

// startTask notes that the agent works on a task, and what the task is paid from. It returns the context of the task, which
// ends when there is no more time for it or when it is interrupted, and what the caller must call when the task is done.
func (i *instance) startTask(ctx context.Context, s community.Signal) (context.Context, func()) {
	if i.parent == nil && !i.keepAccount && !i.isFromOwnTree(s.Requester) {
		i.account.Renew()
	}
	now := time.Now()
	end := now.Add(i.account.Wall())
	if at, ok := ctx.Deadline(); ok && at.Before(end) && (i.parent != nil || i.lease != nil) {
		end = at // that of the caller
	}
	return i.task.start(ctx, budget.NewTask(i.account, now, end), end, i.account.TimeExceeded())
}

// isFromOwnTree reports whether a task comes from the agent itself or from its descendants: then it goes on with the budget
// that it has, or its sub-agents could have it renewed for ever.
func (i *instance) isFromOwnTree(requesters []string) bool {
	if slices.Contains(requesters, i.address) {
		return true
	}
	for _, address := range requesters {
		if r := i.factory.instances.byAddress(address); r != nil && slices.Contains(r.permissions.line, i.permissions) {
			return true
		}
	}
	return false
}

// Spent returns what a running agent of this factory and its descendants have used: an agent without a parent since its last
// task began, or since it was spawned (Order.ForLife), others since they were spawned. false = there is no such agent.
func (f *Factory) Spent(id community.MemberID) (budget.Spent, bool) {
	i := f.instances.byID(id)
	if i == nil {
		return budget.Spent{}, false
	}
	return i.account.Total(), true
}

// rejoin takes the agent's place in the budget again after a restart.
func (i *instance) rejoin() error {
	if i.parent == nil {
		return nil
	}
	if i.parent.current().team.IsClosed() {
		return community.ErrStopped
	}
	return i.account.Reopen()
}
