package node

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

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

// resumption is an interrupted task that goes on, and whom it asks about calls.
type resumption struct {
	session session.Info
	ask     approvals.Ask // nil = calls that need approval are denied
}

// resumer goes on with what the end of the node interrupted: tasks, approvals
// that waited, and agents that live again.
type resumer struct {
	*parts
	answered chan resumption       // the tasks whose restored approvals were answered
	kept     map[string]*keptAgent // by session; constant once the node is ready
}

// unfinished returns the tasks that the end of the node interrupted and that
// can go on, the latest first, also those of earlier ends.
func (p *resumer) unfinished(ctx context.Context, dir string) (all []session.Info, err error) {
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
func (p *resumer) prepare(ctx context.Context) []resumption {
	kept := p.spawnKept(ctx)
	auto, err := p.restoreApprovals(ctx)
	if err := errors.Join(kept, err); err != nil {
		p.cfg.Logger.Error("interrupted sessions", "err", err)
	}
	p.reportInterrupted(ctx)
	return auto
}

// restoreApprovals lists the approvals again that waited when the node ended, and
// returns the tasks that go on by themselves (session.resume: auto). A task
// that waits for an approval goes on with its answer. Only tasks of the node's
// directory go on so, because their calls mean files in it.
func (p *resumer) restoreApprovals(ctx context.Context) (auto []resumption, err error) {
	all, err := p.unfinished(ctx, p.cfg.Workspace())
	if err != nil {
		return nil, err
	}
	p.answered = make(chan resumption, len(all)) // made before the requests that use it
	for _, s := range all {
		if !s.Pending {
			if p.cfg.Settings.Session.Resume == config.ResumeAuto && s.Restarts < maxRestarts {
				auto = append(auto, resumption{s, p.unattended()})
			}
			continue // without its entries, which may be many megabytes
		}
		entries, err := p.sessions.Store().Entries(ctx, s.ID, 0)
		if err != nil {
			return nil, err
		}
		if asked, pending := session.PendingApproval(entries); pending {
			p.restoreApproval(s, asked)
		}
	}
	return auto, nil
}

// restoreApproval lists an approval again. Its answer resumes the task.
func (p *resumer) restoreApproval(s session.Info, asked session.Entry) {
	err := p.approvals.Restore(s, asked, func(ask approvals.Ask) {
		p.answered <- resumption{s, ask} // has room for each session, and a request is answered once
	})
	if err != nil {
		p.cfg.Logger.Warn("an approval that waited is not listed again", "session", s.ID, "err", err)
	}
}

// resumeAll goes on with tasks, some at a time, until all have ended or ctx
// ends.
func (p *resumer) resumeAll(ctx context.Context, all []resumption) error {
	var g errgroup.Group
	g.SetLimit(maxResumed)
	for _, r := range all {
		g.Go(func() error { p.resume(ctx, r); return nil })
	}
	return g.Wait()
}

// resumeAnswered goes on with the tasks whose restored approvals were answered,
// until ctx ends.
func (p *resumer) resumeAnswered(ctx context.Context) error {
	var g errgroup.Group
	defer g.Wait() //nolint:errcheck // it returns no error
	for {
		select {
		case r := <-p.answered:
			g.Go(func() error {
				p.resume(ctx, r)
				p.keepApproval(ctx, r.session)
				return nil
			})
		case <-ctx.Done():
			return nil
		}
	}
}

// keepApproval lists the approval of a session again if its answer had no
// effect, because the task could not go on.
func (p *resumer) keepApproval(ctx context.Context, s session.Info) {
	log, entries, err := p.sessions.Open(ctx, s.ID)
	if err != nil {
		return // an agent goes on with it, and asks anew
	}
	defer log.Close()
	if asked, pending := session.PendingApproval(entries); pending && log.Info().Open {
		p.restoreApproval(s, asked)
	}
}

// resume goes on with one task to its end, and publishes how it ended.
func (p *resumer) resume(ctx context.Context, r resumption) {
	s := r.session
	if ctx.Err() != nil {
		return
	}
	o, err := p.resumeOrder(ctx, s.ID)
	if err == nil {
		p.publishSession(s, session.Working, "it goes on after the end of the node", "")
		if k := p.kept[s.ID]; k != nil {
			err = p.resumeKept(ctx, k, r.ask)
		} else {
			o.Ask = r.ask
			_, err = p.oneTask(ctx, o, community.Signal{})
		}
	}
	switch {
	case err == nil:
		p.publishSession(s, session.Done, "", "")
	case ctx.Err() != nil: // the node ends: the task goes on at its next start
	case errors.Is(err, session.ErrInUse):
	default:
		p.publishSession(s, session.Failed, fmt.Sprintf("it could not go on: %v", err), "symbio sessions show "+s.ID)
	}
}

// publishSession publishes the state of a session.
func (p *resumer) publishSession(s session.Info, state session.State, why, mend string) {
	p.events.Publish("session", s.Member, sessionEvent{ID: s.ID, Name: s.Name, Text: s.Title, State: string(state), Why: why, Mend: mend})
}

// reportInterrupted publishes the tasks that the end of the node interrupted:
// all that can go on, and those that its latest end lost.
func (p *resumer) reportInterrupted(ctx context.Context) {
	open, err := p.unfinished(ctx, "")
	if err != nil {
		p.cfg.Logger.Error("interrupted sessions", "err", err)
	}
	for _, s := range open {
		why := "the node ended during this task"
		if s.Dir != p.cfg.Workspace() {
			why += " in " + s.Dir
		}
		mend := "symbio sessions resume " + s.ID
		if k := p.kept[s.ID]; k != nil {
			mend = "symbio send " + s.Member + " " + k.member.Accepts[0] // the session is in use
		}
		p.publishSession(s, s.State, why, mend)
	}
	for _, s := range p.interrupted {
		if s.State == session.Lost && s.Parent == "" {
			p.publishSession(s, s.State, "the node ended during this task, whose caller "+s.Requester+" does not wait any more", "")
		}
	}
}
