package team

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"symbio/agent/budget"
	"symbio/agent/conversation"
	"symbio/community"
)

// launch is a task that a model gave to a new sub-agent. Its fields are constant but child, which the
// goroutine of perform replaces.
type launch struct {
	team      *Team
	request   SpawnRequest
	key, text string
	child     *Child     // has the task now
	first     chan error // gets the outcome of the first spawn while start waits for it; has the capacity 1
}

// launch spawns a sub-agent for a reserved task and starts the task in the background; without a task it only spawns. It
// returns the sub-agent, or while all places are taken a Child that waits for one. With an error nothing is
// left of it but the reservation.
func (t *Team) launch(call context.Context, w SpawnRequest, key, text string) (*Child, error) {
	if text == "" {
		return t.cfg().Spawn(call, w)
	}
	ctx, cancel := t.background(t.cfg().Fix(call))
	defer context.AfterFunc(call, cancel)() // until launch returns
	wait := &place{cancel: cancel}
	c := &Child{Member: community.Member{Name: w.Name}, Handle: wait, task: &task{cancel: cancel}}
	waits := make(chan struct{}, 1)
	w.Waiting = func(before int) {
		wait.before.Store(int64(before))
		select {
		case waits <- struct{}{}:
		default: // launch knows, or has returned
		}
	}
	l := &launch{team: t, request: w, key: key, text: text, child: c, first: make(chan error, 1)}
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		cancel()
		return nil, community.ErrStopped
	}
	t.tasks.Go(func() {
		defer cancel()
		l.perform(ctx)
	})
	t.mu.Unlock()
	select {
	case err := <-l.first:
		return t.latest(c), err
	case <-waits:
	}
	t.mu.Lock()
	select {
	case err := <-l.first: // its first spawn has ended meanwhile
		t.mu.Unlock()
		return t.latest(c), err
	default:
	}
	c.queued, t.children = true, append(t.children, c)
	t.mu.Unlock()
	t.makeRoom()
	return c, nil
}

// busyPause is how long a lost task waits before it asks for room in the queue again.
const busyPause = 250 * time.Millisecond

// perform spawns a sub-agent for the task, has it do the task, and does so again while Repeat says
// so.
func (l *launch) perform(ctx context.Context) {
	t := l.team
	for times := 0; ; times++ {
		c := l.child
		next, s, err := l.spawn(ctx)
		for times > 0 && errors.Is(err, community.ErrBusy) && ctx.Err() == nil {
			// It was begun, so a queue that is full now does not refuse it.
			select {
			case <-time.After(busyPause):
			case <-ctx.Done():
			}
			next, s, err = l.spawn(ctx)
		}
		if err == nil {
			l.replace(next)
		}
		if told := times == 0 && l.tell(c, err); err != nil {
			if !told {
				t.finish(c, c.task, l.key, community.Reply{}, fmt.Errorf("%s was not started: %w", c.Member.Name, err))
			}
			return
		}
		reply, err := t.cfg().Send(ctx, next.Member.ID, s)
		if err == nil || ctx.Err() != nil || !t.cfg().Repeat(next, l.request, times) {
			t.finish(next, next.task, l.key, reply, err)
			return
		}
	}
}

// spawn spawns a sub-agent and returns the signal that gives it the task.
func (l *launch) spawn(ctx context.Context) (*Child, community.Signal, error) {
	next, err := l.team.cfg().Spawn(ctx, l.request)
	if err != nil {
		return nil, community.Signal{}, err
	}
	s, err := l.team.signal(ctx, next, l.text)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx) // it was stopped while it was being spawned
	}
	if err != nil {
		next.Handle.Stop(context.WithoutCancel(ctx))
		next.release()
		return nil, community.Signal{}, err
	}
	return next, s, nil
}

// tell passes the outcome of the first spawn to Team.launch. It returns false if that has returned,
// because the task has to wait.
func (l *launch) tell(c *Child, err error) bool {
	l.team.mu.Lock()
	defer l.team.mu.Unlock()
	if c.queued {
		return false
	}
	l.first <- err // it has room for the one value
	return true
}

// replace puts a spawned sub-agent in the place of the Child that had the task before.
func (l *launch) replace(next *Child) {
	t := l.team
	t.mu.Lock()
	defer t.mu.Unlock()
	c := l.child
	next.task, c.successor, l.child = c.task, next, next
	if at := slices.Index(t.children, c); at >= 0 {
		t.children = slices.DeleteFunc(t.children, func(other *Child) bool { return other == next })
		t.children[at] = next
	}
	if r := t.reserved[l.key]; r != nil {
		r.by = append(r.by, next.Member.Name+" ("+string(next.Member.ID)+")")
	}
}

// waiting returns how many of the children are tasks that wait for a place. The caller must hold Team.mu.
func waiting(children []*Child) (n int) {
	for _, c := range children {
		if c.queued && !c.task.done {
			n++
		}
	}
	return n
}

// makeRoom stops sub-agents whose task is done and whose work the parent has, at most as many as
// tasks wait for a place. Their results can still be read.
func (t *Team) makeRoom() {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := waiting(t.children)
	for _, c := range t.children {
		if n == 0 || t.closed {
			return
		}
		if c.task != nil && c.isDispensable() && c.Handle.Gone() == nil {
			n--
			t.tasks.Go(func() { c.Handle.Stop(t.alive) })
		}
	}
}

// isDispensable reports whether nothing of a sub-agent is needed but its result. The caller must hold
// mu.
func (c *Child) isDispensable() bool {
	return c.Account != nil && c.task.done && (c.Workspace == nil || c.collected)
}

// setCollected notes that the parent has the work of a sub-agent, which may end now.
func (t *Team) setCollected(c *Child) {
	t.mu.Lock()
	c.collected = true
	t.mu.Unlock()
	t.makeRoom()
}

// isStuck reports whether tasks wait while nothing works and sub-agents keep their places, because the
// parent does not have their work. The caller must hold mu.
func isStuck(children []*Child) (stuck bool) {
	for _, c := range children {
		switch {
		case c.task == nil:
		case !c.task.done && !c.queued:
			return false
		case c.task.done && c.Workspace != nil && !c.collected && c.Handle.Gone() == nil:
			stuck = true
		}
	}
	return stuck && waiting(children) > 0
}

// release gives back the place of a sub-agent on this node.
func (c *Child) release() {
	if c.Release != nil {
		c.Release()
	}
}

// place is the Handle of a task that waits for a place.
type place struct {
	cancel context.CancelFunc
	before atomic.Int64
}

// Stop takes the task out of the queue.
func (p *place) Stop(context.Context) { p.cancel() }

// Gone returns nil: the Child of a task that could not begin has the error in its task.
func (p *place) Gone() error { return nil }

// Steer fails: there is no agent yet.
func (p *place) Steer(context.Context, string) (conversation.Receipt, error) {
	return conversation.Receipt{}, fmt.Errorf("it waits for a place and has not begun: %w", community.ErrUnavailable)
}

// Activity says how many tasks are before it.
func (p *place) Activity() string {
	return fmt.Sprintf("it waits for a place; %d tasks are before it", p.before.Load())
}

// total returns what a sub-agent spent; nothing for a task that waits.
func (c *Child) total() budget.Spent {
	if c.Account == nil {
		return budget.Spent{}
	}
	return c.Account.Total()
}
