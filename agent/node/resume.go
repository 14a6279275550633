package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"symbio/agent/event"
	"symbio/agent/node/approvals"
	"symbio/agent/node/config"
	"symbio/agent/session"
	"symbio/community"
)

const (
	// maxResumed is how many interrupted tasks go on by themselves at once. It
	// keeps a node that starts from asking its models for everything at the
	// same time.
	maxResumed = 4
	// maxRestarts is how often a task goes on by itself without an answer of
	// its model in between. A task that ends its node each time waits for a
	// person after that.
	maxRestarts = 3
)

// resumer goes on with what the end of the node interrupted: tasks, approvals
// that waited, and agents that live again.
type resumer struct {
	*parts
}

// unfinished returns the tasks that the end of the node interrupted and that
// can go on, the latest first, also those of earlier ends.
func (p resumer) unfinished(ctx context.Context, dir string) (all []session.Info, err error) {
	if p.sessions == nil {
		return nil, nil
	}
	found, err := p.sessions.Store().Sessions(ctx, session.Filter{Dir: dir, States: []session.State{session.Interrupted}, Roots: true})
	for _, s := range found {
		if s.Open {
			all = append(all, s)
		}
	}
	return all, err
}

// prepare spawns the agents that live again, lists the approvals that waited,
// publishes what was interrupted, and returns the tasks that go on by
// themselves. What fails is logged: it must not keep the node from starting.
// resumeAnswered must run already.
func (p resumer) prepare(ctx context.Context) []session.Info {
	kept := p.spawnKept(ctx)
	auto, err := p.restoreApprovals(ctx)
	if err := errors.Join(kept, err, p.reportInterrupted(ctx)); err != nil {
		p.cfg.Logger.Error("interrupted sessions", "err", err)
	}
	return auto
}

// spawnKept spawns the agents of the node's directory that live again, with
// their member ids and their conversations. An agent that cannot live again is
// a warning, and is tried again at the next start.
func (p resumer) spawnKept(ctx context.Context) error {
	if p.sessions == nil {
		return nil
	}
	all, err := p.sessions.Store().Sessions(ctx, session.Filter{Dir: p.cfg.Workspace(), Roots: true, Keep: true})
	for _, s := range all {
		o, err := p.resumeOrder(ctx, s.ID)
		if err == nil {
			if p.unattended() == nil {
				o.Ask = p.approvals.AskAnswered
			}
			_, err = p.factory.Spawn(ctx, p.complete(o))
		}
		if err != nil {
			p.events.Warn(event.Warning{Why: fmt.Sprintf("agent %s (%s) does not live again: %v", s.Name, s.Member, err), Mend: "symbio sessions show " + s.ID})
		}
	}
	return err
}

// restoreApprovals lists the approvals again that waited when the node ended, and
// returns the tasks that go on by themselves (session.resume: auto). A task
// that waits for an approval goes on with its answer. Only tasks of the node's
// directory go on so, because their calls mean files in it.
func (p resumer) restoreApprovals(ctx context.Context) (auto []session.Info, err error) {
	all, err := p.unfinished(ctx, p.cfg.Workspace())
	for _, s := range all {
		if s.Pending { // only then its entries are read, which may be many megabytes
			err = errors.Join(err, p.restoreApproval(ctx, s))
		} else if p.cfg.Settings.Session.Resume == config.ResumeAuto && s.Restarts < maxRestarts {
			auto = append(auto, s)
		}
	}
	return auto, err
}

// restoreApproval lists the approval of a session again. Its answer resumes the
// task.
func (p resumer) restoreApproval(ctx context.Context, s session.Info) error {
	entries, err := p.sessions.Store().Entries(ctx, s.ID, 0)
	if asked, pending := session.PendingApproval(entries); pending && err == nil {
		err = p.approvals.Restore(s, asked, func() {
			select {
			case p.resumed <- resumption{s, p.approvals.Ask}:
			case <-ctx.Done():
			}
		})
	}
	if err != nil {
		return fmt.Errorf("the approval for which session %s waits is not listed again: %w", s.ID, err)
	}
	return nil
}

// relistApproval lists the approval of a session again if its answer had no
// effect, because the task could not go on.
func (p resumer) relistApproval(ctx context.Context, id string) {
	all, err := p.sessions.Store().Sessions(ctx, session.Filter{ID: id, States: []session.State{session.Interrupted}})
	if err == nil && len(all) == 1 && all[0].Open && all[0].Pending { // else it has gone on, or an agent goes on with it and asks anew
		err = p.restoreApproval(ctx, all[0])
	}
	if err != nil && ctx.Err() == nil {
		p.cfg.Logger.Error("interrupted sessions", "err", err)
	}
}

// resumption is an interrupted task that is to go on.
type resumption struct {
	session session.Info
	ask     approvals.Ask // nil = as agents without a terminal
}

// resumeAll goes on with tasks, some at a time, until all have ended or ctx
// ends.
func (p resumer) resumeAll(ctx context.Context, all []session.Info) error {
	var g errgroup.Group
	g.SetLimit(maxResumed)
	for _, s := range all {
		g.Go(func() error { p.resume(ctx, resumption{session: s}); return nil })
	}
	return g.Wait()
}

// resumeAnswered goes on with the tasks whose restored approvals were answered,
// and with those that people ask for, until ctx ends.
func (p resumer) resumeAnswered(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		select {
		case r := <-p.resumed:
			running.Go(func() { p.resume(ctx, r) })
		case <-ctx.Done():
			return nil
		}
	}
}

// resume goes on with one task to its end, and publishes how it ended.
func (p resumer) resume(ctx context.Context, r resumption) {
	s := r.session
	if ctx.Err() != nil {
		return
	}
	p.publishSession(s, session.Working, "it goes on after the end of the node", "")
	var err error
	if m, here := p.community.Member(community.MemberID(s.Member)); s.Keep && here {
		_, err = p.community.Send(ctx, m.ID, community.Signal{Perception: m.Accepts[0]})
	} else if o, e := p.resumeOrder(ctx, s.ID); e != nil {
		err = e
	} else {
		o.Ask = r.ask
		_, _, err = p.oneTask(ctx, o, community.Signal{})
	}
	switch {
	case err == nil:
		p.publishSession(s, session.Done, "", "")
	case ctx.Err() != nil: // the node ends: the task goes on at its next start
	case errors.Is(err, session.ErrInUse):
	default:
		p.publishSession(s, session.Failed, fmt.Sprintf("it could not go on: %v", err), "symbio sessions show "+s.ID)
	}
	p.relistApproval(ctx, s.ID)
}

// sessionEvent is the event of a session that begins, goes on, or was
// interrupted.
type sessionEvent struct {
	ID    string `json:"id"`
	Name  string `json:"name,omitempty"`
	Text  string `json:"text,omitempty"` // the title
	State string `json:"state"`
	Why   string `json:"why,omitempty"`
	Mend  string `json:"mend,omitempty"`
}

// publishSession publishes the state of a session.
func (p resumer) publishSession(s session.Info, state session.State, why, mend string) {
	p.events.Publish("session", s.Member, sessionEvent{ID: s.ID, Name: s.Name, Text: s.Title, State: string(state), Why: why, Mend: mend})
}

// reportInterrupted publishes the tasks that the end of the node interrupted:
// all that can go on, and those that its latest end lost.
func (p resumer) reportInterrupted(ctx context.Context) error {
	open, err := p.unfinished(ctx, "")
	for _, s := range open {
		why, mend := "the node ended during this task", "symbio sessions resume "+s.ID
		if s.Dir != p.cfg.Workspace() {
			why += " in " + s.Dir
		}
		if m, here := p.community.Member(community.MemberID(s.Member)); s.Keep && here {
			mend = "symbio send " + s.Member + " " + m.Accepts[0] // the session is in use
		}
		p.publishSession(s, s.State, why, mend)
	}
	for _, s := range p.interrupted {
		if s.State == session.Lost && s.Parent == "" {
			p.publishSession(s, s.State, "the node ended during this task, whose caller "+cmp.Or(s.Requester, "symbio map")+" does not wait any more", "")
		}
	}
	return err
}
