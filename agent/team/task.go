package team

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"symbio/agent/budget"
	"symbio/agent/tool/peer"
	"symbio/community"
)

// task is what a sub-agent does beside its parent.
type task struct {
	cancel   context.CancelFunc
	done     bool // the rest is constant then
	reported bool // the parent's model was told the result
	text     string
	err      error
}

// taskReservation is a task that sub-agents work on: no other is given it meanwhile.
type taskReservation struct {
	by   []string
	left int // how many have not ended it
}

// errAlready: exactly this task is being done.
var errAlready = errors.New("exactly this task is being done already")

// taskKey returns what makes a task the same as another.
func taskKey(definition, task string) string {
	return definition + "\x00" + strings.Join(strings.Fields(task), " ")
}

// reserve reserves a task for n sub-agents, or says who does it already.
func (t *Team) reserve(key string, n int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.reserved[key]; r != nil {
		by := "a sub-agent that is being made at this moment"
		if len(r.by) > 0 {
			by = strings.Join(r.by, ", ")
		}
		return fmt.Errorf("%w, by %s: wait for that with wait_agents", errAlready, by)
	}
	t.reserved[key] = &taskReservation{left: n}
	return nil
}

// release takes back n of the reservations of a task. It needs mu.
func (t *Team) release(key string, n int) {
	if r := t.reserved[key]; r != nil {
		if r.left -= n; r.left <= 0 {
			delete(t.reserved, key)
		}
	}
}

// assign has a sub-agent do a task that was reserved, beside what the parent does; it returns at once. The reservation
// ends with the task, or with an error.
func (t *Team) assign(ctx context.Context, c *Child, key, text string) error {
	s := community.Signal{Perception: c.perception(), Requester: peer.Requester(ctx)}
	var err error
	if s.Data, err = json.Marshal(text); err == nil {
		s.OnBehalf, err = t.cfg.OnBehalf(c) // what holds now, and not when it is sent
	}
	ctx, cancel := t.background(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err != nil:
	case t.closed:
		err = community.ErrStopped
	case c.task != nil && !c.task.done:
		err = fmt.Errorf("%s is still working", c.Member.Name)
	}
	if err != nil {
		cancel()
		t.release(key, 1)
		return err
	}
	one := &task{cancel: cancel}
	c.task = one
	if r := t.reserved[key]; r != nil {
		r.by = append(r.by, c.Member.Name+" ("+string(c.Member.ID)+")")
	}
	t.tasks.Go(func() {
		defer cancel()
		reply, err := t.cfg.Send(ctx, c.Member.ID, s)
		t.finish(c, one, key, reply, err)
	})
	return nil
}

// background returns a context for what goes on beside the parent's own turns. It ends with the team, and in time for the
// last words of the task in which it was begun.
func (t *Team) background(ctx context.Context) (context.Context, context.CancelFunc) {
	until, late := t.cfg.Deadline()
	ctx, cancel := context.WithDeadlineCause(context.WithoutCancel(ctx), until, late)
	stop := context.AfterFunc(t.alive, cancel)
	return ctx, func() { stop(); cancel() }
}

// finish records how a task ended.
func (t *Team) finish(c *Child, one *task, key string, reply community.Reply, err error) {
	if why := c.Handle.Gone(); err != nil && why != nil && !errors.Is(err, budget.ErrExceeded) {
		err = why
	}
	t.cfg.Done(c, string(reply.Data), err)
	t.mu.Lock()
	defer t.mu.Unlock()
	one.done, one.text, one.err = true, string(reply.Data), err
	t.release(key, 1)
	t.notify()
}
