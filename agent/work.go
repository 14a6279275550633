package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"symbio/agent/tool/peer"
	"symbio/community"
)

// work is a task that a sub-agent does beside its parent.
type work struct {
	cancel context.CancelFunc
	done   bool // the rest is constant then
	told   bool // the parent's model was told the result
	text   string
	err    error
}

// duty is a task that sub-agents work on: nobody else is given it meanwhile.
type duty struct {
	by   []string
	left int // how many have not ended it
}

// errAlready says that a task is being done.
var errAlready = errors.New("exactly this task is being done already")

// dutyOf is what makes a task the same as another.
func dutyOf(definition, task string) string {
	return definition + "\x00" + strings.Join(strings.Fields(task), " ")
}

// claim reserves a task for so many sub-agents, or says who does it already.
func (l *life) claim(key string, n int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := l.brood.tasks[key]; d != nil {
		by := "a sub-agent that is being made at this moment"
		if len(d.by) > 0 {
			by = strings.Join(d.by, ", ")
		}
		return fmt.Errorf("%w, by %s: wait for that with wait_agents", errAlready, by)
	}
	l.brood.tasks[key] = &duty{left: n}
	return nil
}

// forgo takes back n of the claims of a task. It needs mu.
func (l *life) forgo(key string, n int) {
	if d := l.brood.tasks[key]; d != nil {
		if d.left -= n; d.left <= 0 {
			delete(l.brood.tasks, key)
		}
	}
}

// give has a sub-agent do a task that was claimed, beside what the agent itself does; it returns at once. The claim ends
// with the task, or with an error.
func (l *life) give(ctx context.Context, c *child, key, task string) error {
	err := l.start(ctx, c, key, task)
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.forgo(key, 1)
	}
	return err
}

func (l *life) start(ctx context.Context, c *child, key, task string) error {
	data, err := json.Marshal(task)
	if err != nil {
		return err
	}
	perception, ok := c.member.Usual()
	if !ok {
		perception = c.member.Accepts[0]
	}
	s := community.Signal{Perception: perception, Data: data, Requester: peer.Requester(ctx)}
	if s.OnBehalf, err = l.held(c.member.Node != l.self.Node); err != nil {
		return err
	}
	ctx, cancel := l.beside(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended:
		err = community.ErrStopped
	case c.work != nil && !c.work.done:
		err = fmt.Errorf("%s is still working", c.member.Name)
	}
	if err != nil {
		cancel()
		return err
	}
	w := &work{cancel: cancel}
	c.work = w
	if d := l.brood.tasks[key]; d != nil {
		d.by = append(d.by, c.member.Name+" ("+string(c.member.ID)+")")
	}
	l.brood.works.Go(func() {
		defer cancel()
		reply, err := patience{l.factory.cfg.Community, l}.Send(ctx, c.member.ID, s)
		l.finished(c, w, key, reply, err)
	})
	return nil
}

// beside is a context for what goes on beside the agent's own turns: it ends with the agent, and in time for the last
// words of the task in which it was begun.
func (l *life) beside(ctx context.Context) (context.Context, context.CancelFunc) {
	until := time.Now().Add(l.account.wall)
	if p := l.paying(); p != nil {
		until = p.until
	}
	ctx, cancel := context.WithDeadlineCause(context.WithoutCancel(ctx), until, l.account.late)
	l.mu.Lock()
	stop := context.AfterFunc(l.brood.alive, cancel)
	l.mu.Unlock()
	return ctx, func() { stop(); cancel() }
}

// finished notes how a task ended. Of one on another node, which reports to nobody here, it is reported.
func (l *life) finished(c *child, w *work, key string, reply community.Reply, err error) {
	if why := c.hand.gone(); err != nil && why != nil && !errors.Is(err, ErrBudget) {
		err = why
	}
	if c.account.away {
		e := Event{Type: EventDone, Agent: c.member.ID, Name: c.member.Name, Parent: l.self.ID, Text: string(reply.Data)}
		if err != nil {
			e.Type, e.Text, e.Why = EventFailed, "", err.Error()
		}
		spent := c.account.total()
		e.Spent = &spent
		l.factory.cfg.Report(e)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	w.done, w.text, w.err = true, string(reply.Data), err
	l.forgo(key, 1)
	l.brood.wake()
}

// said notes what became of something that was said to a sub-agent while it worked.
func (l *life) said(c *child, text string, delivered bool) {
	if delivered {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.unsaid = append(c.unsaid, text)
	l.brood.wake()
}
