package node

import (
	"context"
	"strconv"
	"sync"

	"symbio/agent/tool"
)

// approvals are the decisions that wait for a person. Each is answered once; what ends unanswered is
// a denial.
type approvals struct {
	mu      sync.Mutex
	last    uint64               // guarded by mu
	waiting map[string]chan bool // guarded by mu
}

// ask announces a decision of the agent of that name as an event and waits for its answer, or for
// the end of the task.
func (a *approvals) ask(ctx context.Context, events *Events, name string, d tool.Decision) bool {
	answer := make(chan bool, 1)
	a.mu.Lock()
	a.last++
	id := strconv.FormatUint(a.last, 10)
	if a.waiting == nil {
		a.waiting = map[string]chan bool{}
	}
	a.waiting[id] = answer
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.waiting, id)
	}()
	events.Publish("approval", d.Agent, map[string]any{"id": id, "name": name, "tool": d.Tool, "args": d.Args, "why": d.Verdict.Why})
	select {
	case allow := <-answer:
		return allow
	case <-ctx.Done():
		return false
	}
}

// answer decides what waits under id; false when nothing does.
func (a *approvals) answer(id string, allow bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	ch, ok := a.waiting[id]
	delete(a.waiting, id)
	if ok {
		ch <- allow // capacity 1, and only the one that took it out of the map sends
	}
	return ok
}
