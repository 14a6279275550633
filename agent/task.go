package agent

import (
	"context"
	"sync"

	"symbio/agent/budget"
)

// runningTask is the task that an agent works on, if any. It is safe for concurrent use: an
// Interrupt comes from another goroutine than Receive.
type runningTask struct {
	account *budget.Account // of the agent

	mu          sync.Mutex
	budget      *budget.Task       // pays for the task's model calls; nil = there is no task; guarded by mu
	stop        context.CancelFunc // ends the task; nil = there is none; guarded by mu
	interrupted bool               // of this task, or of the last one; guarded by mu

	sampling sync.Mutex // held while an MCP server asks the model, since the record has one request at a time
}

// start begins a task. It returns the task's context, which ends at the time limit of pays, or when the
// task is interrupted, and a function that the caller must call when the task is done.
func (t *runningTask) start(ctx context.Context, pays *budget.Task) (context.Context, func()) {
	ctx, stop := pays.Context(ctx)
	t.mu.Lock()
	t.stop, t.interrupted, t.budget = stop, false, pays
	t.mu.Unlock()
	return ctx, func() {
		stop()
		pays.Close()
		t.mu.Lock()
		t.stop, t.budget = nil, nil
		t.mu.Unlock()
	}
}

// currentBudget returns the budget of the running task; nil = there is no task.
func (t *runningTask) currentBudget() *budget.Task {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.budget
}

// forTools returns the context of the task's tools. It ends early enough for the model to sum up
// what is done.
func (t *runningTask) forTools(ctx context.Context) context.Context {
	if b := t.currentBudget(); b != nil {
		return b.ForTools(ctx)
	}
	return ctx
}

// interrupt ends the running task. It returns false if there is none.
func (t *runningTask) interrupt() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stop == nil {
		return false
	}
	t.interrupted = true
	t.stop()
	return true
}

// wasInterrupted reports whether the task was interrupted; without a task, whether the last one was.
func (t *runningTask) wasInterrupted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.interrupted
}
