package team

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"symbio/agent/budget"
	"symbio/community"
	"symbio/internal/agent/tool/peer"
	"symbio/internal/security/visible"
)

// task is one task of a sub-agent. Its fields are guarded by Team.mu; text and err are constant
// once done is set.
type task struct {
	// cancel interrupts the task.
	cancel context.CancelFunc
	// done reports whether the task has ended.
	done bool
	// reported is set when wait_agents or stop_agents has returned the result to the parent's
	// model.
	reported bool
	// text is the result, err the reason of a failure.
	text string
	err  error
}

// taskReservation marks a task that sub-agents work on, so that it is not given to another one at
// the same time.
type taskReservation struct {
	// by are the sub-agents that work on the task, for the error of reserve.
	by []string
	// left is the number of sub-agents that have not finished; at 0 the reservation is removed.
	left int
}

// errDuplicateTask is the error of a task that a sub-agent of the same definition works on already.
var errDuplicateTask = errors.New("exactly this task is in progress already")

// taskKey identifies a task: the definition, the text without differences in white space, and where it
// is to be done.
func taskKey(definition, task string, where ...string) string {
	return strings.Join(append([]string{definition, strings.Join(strings.Fields(task), " ")}, where...), "\x00")
}

// reserve reserves a task for n sub-agents. The error wraps errDuplicateTask and names the
// sub-agents that work on it already.
func (t *Team) reserve(key string, n int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.reserved[key]; r != nil {
		by := "a sub-agent that is being made at this moment"
		if len(r.by) > 0 {
			by = strings.Join(r.by, ", ")
		}
		return fmt.Errorf("%w, by %s: wait for that with wait_agents", errDuplicateTask, by)
	}
	t.reserved[key] = &taskReservation{left: n}
	return nil
}

// release returns n reservations of a task. The caller must hold mu.
func (t *Team) release(key string, n int) {
	if r := t.reserved[key]; r != nil {
		if r.left -= n; r.left <= 0 {
			delete(t.reserved, key)
		}
	}
}

// assign starts a reserved task of a sub-agent in the background and returns at once. The
// reservation is released when the task ends, or if assign returns an error.
func (t *Team) assign(ctx context.Context, c *Child, key, text string) error {
	// Encoded now, because the parent's requesters may have changed when the signal is sent.
	s, err := t.signal(ctx, c, text)
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
		reply, err := t.cfg().Send(ctx, c.Member.ID, s)
		t.finish(c, one, key, reply, err)
	})
	return nil
}

// signal returns the signal that gives a sub-agent a task.
func (t *Team) signal(ctx context.Context, c *Child, text string) (s community.Signal, err error) {
	s = community.Signal{Perception: c.perception(), Requester: peer.Requester(ctx)}
	if s.Data, err = json.Marshal(text); err == nil {
		s.OnBehalf, err = t.cfg().OnBehalf(ctx, c)
	}
	return s, err
}

// Ask gives a new sub-agent its only task and returns the answer; it cuts the part over the
// limit of a tool's result. The end of ctx ends the task.
func (t *Team) Ask(ctx context.Context, c *Child, text string) (string, error) {
	s, err := t.signal(ctx, c, text)
	if err != nil {
		return "", err
	}
	reply, err := t.cfg().Send(ctx, c.Member.ID, s)
	t.cfg().Done(c, string(reply.Data), err)
	return visible.Prefix(string(reply.Data), maxResult), err
}

// background returns a context for work that outlives the current tool call. It keeps the values of
// ctx, but not its end. It ends with the team, or when the summary of the parent's task is due. The
// caller must call the returned function.
func (t *Team) background(ctx context.Context) (context.Context, context.CancelFunc) {
	until, late := t.cfg().Deadline()
	ctx, cancel := context.WithDeadlineCause(context.WithoutCancel(ctx), until, late)
	stop := context.AfterFunc(t.alive, cancel)
	return ctx, func() { stop(); cancel() }
}

// finish records the result of a task, and gives back the sub-agent's place if others wait for one.
// If the sub-agent is gone, the reason for that is a better error than the failed send.
func (t *Team) finish(c *Child, one *task, key string, reply community.Reply, err error) {
	if why := c.Handle.Gone(); err != nil && why != nil && !errors.Is(err, budget.ErrExceeded) {
		err = why
	}
	// Done is called without the lock, since it may call back into the Team.
	t.cfg().Done(c, string(reply.Data), err)
	t.mu.Lock()
	one.done, one.text, one.err = true, string(reply.Data), err
	t.release(key, 1)
	t.notify()
	full := waiting(t.children) > 0 && c.task == one && c.isDispensable()
	t.mu.Unlock()
	if full {
		c.Handle.Stop(t.alive)
	}
	c.release()
}
