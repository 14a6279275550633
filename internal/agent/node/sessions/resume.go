package sessions

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"symbio/agent"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/node/config"
	"symbio/agent/session"
	"symbio/community"
	"symbio/internal/agent/node/approvals"
	"symbio/internal/agent/node/tasks"
	"symbio/internal/security/permission/authorize"
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

// ResumerConfig has what a Resumer needs of the node. All fields are required.
type ResumerConfig struct {
	Sessions  *Sessions
	Agents    *tasks.Spawner
	Approvals *approvals.Queue
	// Model opens the model of a name.
	Model func(ctx context.Context, name string) (llm.Model, error)
	// Dir is the directory in which agents work.
	Dir string
}

// Resumer goes on with what the end of the node interrupted: tasks, approvals
// that waited, and agents that live again. It is safe for concurrent use.
type Resumer struct {
	cfg     ResumerConfig
	resumed chan resumption // interrupted tasks that are to go on
}

// NewResumer returns a Resumer, which Prepare, ResumeAnswered and ResumeAll run.
func NewResumer(cfg ResumerConfig) *Resumer { return &Resumer{cfg, make(chan resumption)} }

// unfinished returns the tasks that the end of the node interrupted and that
// can go on, the latest first, also sessions of earlier ends.
func (r *Resumer) unfinished(ctx context.Context, dir string) (all []session.Info, err error) {
	if r.cfg.Sessions.Journal == nil {
		return nil, nil
	}
	found, err := r.cfg.Sessions.Store().Sessions(ctx, session.Filter{Dir: dir, States: []session.State{session.Interrupted}, Roots: true})
	for _, s := range found {
		if s.Exchange.Open {
			all = append(all, s)
		}
	}
	return all, err
}

// Prepare spawns the agents that live again, lists the approvals that waited,
// publishes what was interrupted, and returns the tasks that go on by
// themselves. Failures are logged: they must not keep the node from starting.
// ResumeAnswered must run already.
func (r *Resumer) Prepare(ctx context.Context) []session.Info {
	kept := r.spawnKept(ctx)
	auto, err := r.restoreApprovals(ctx)
	if err := errors.Join(kept, err, r.reportInterrupted(ctx)); err != nil {
		r.cfg.Sessions.cfg.Logger.Error("interrupted sessions", "err", err)
	}
	return auto
}

// spawnKept spawns the agents of the node's directory that live again, with
// their member ids and their conversations. An agent that cannot live again is
// a warning, and is tried again at the next start.
func (r *Resumer) spawnKept(ctx context.Context) error {
	if r.cfg.Sessions.Journal == nil {
		return nil
	}
	all, err := r.cfg.Sessions.Store().Sessions(ctx, session.Filter{Dir: r.cfg.Dir, Roots: true, Keep: true})
	for _, s := range all {
		o, err := r.Order(ctx, s.ID)
		if err == nil {
			if r.cfg.Agents.Ask == nil {
				o.Ask = r.cfg.Approvals.AskAnswered
			}
			_, err = r.cfg.Agents.Spawn(ctx, o)
		}
		if err != nil {
			r.cfg.Sessions.Events.Warn(fmt.Sprintf("agent %s (%s) does not live again: %v", s.Name, s.Member, err), "symbio sessions show "+s.ID)
		}
	}
	return err
}

// restoreApprovals lists the approvals again that waited when the node ended, and
// returns the tasks that go on by themselves (session.resume: auto). A task
// that waits for an approval goes on with its answer. Only tasks of the node's
// directory go on so, because their calls mean files in it.
func (r *Resumer) restoreApprovals(ctx context.Context) (auto []session.Info, err error) {
	all, err := r.unfinished(ctx, r.cfg.Dir)
	for _, s := range all {
		if s.Exchange.Pending { // only then its entries are read, which may be many megabytes
			err = errors.Join(err, r.restoreApproval(ctx, s))
		} else if r.cfg.Sessions.cfg.Resume == config.ResumeAuto && s.Exchange.Restarts < maxRestarts {
			auto = append(auto, s)
		}
	}
	return auto, err
}

// restoreApproval lists the approval of a session again. Its answer resumes the
// task.
func (r *Resumer) restoreApproval(ctx context.Context, s session.Info) error {
	entries, err := r.cfg.Sessions.Store().Entries(ctx, s.ID, 0)
	if asked, pending := session.PendingApproval(entries); pending && err == nil {
		err = r.cfg.Approvals.Restore(s, asked, func() {
			select {
			case r.resumed <- resumption{s, r.cfg.Approvals.Ask}:
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
func (r *Resumer) relistApproval(ctx context.Context, id string) {
	all, err := r.cfg.Sessions.Store().Sessions(ctx, session.Filter{ID: id, States: []session.State{session.Interrupted}})
	if err == nil && len(all) == 1 && all[0].Exchange.Open && all[0].Exchange.Pending { // else it has gone on, or an agent goes on with it and asks anew
		err = r.restoreApproval(ctx, all[0])
	}
	if err != nil && ctx.Err() == nil {
		r.cfg.Sessions.cfg.Logger.Error("interrupted sessions", "err", err)
	}
}

// resumption is an interrupted task that is to go on.
type resumption struct {
	session session.Info
	ask     approvals.Ask // nil = as agents without a terminal
}

// ResumeAll goes on with tasks, some at a time, until all have ended or ctx
// ends.
func (r *Resumer) ResumeAll(ctx context.Context, all []session.Info) error {
	var g errgroup.Group
	g.SetLimit(maxResumed)
	for _, s := range all {
		g.Go(func() error { r.resume(ctx, resumption{session: s}); return nil })
	}
	return g.Wait()
}

// ResumeAnswered goes on with the tasks whose restored approvals were answered,
// and with those that people ask for, until ctx ends.
func (r *Resumer) ResumeAnswered(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		select {
		case next := <-r.resumed:
			running.Go(func() { r.resume(ctx, next) })
		case <-ctx.Done():
			return nil
		}
	}
}

// resume goes on with one task to its end, and publishes how it ended.
func (r *Resumer) resume(ctx context.Context, next resumption) {
	s := next.session
	if ctx.Err() != nil {
		return
	}
	r.publishSession(s, session.Working, "it goes on after the end of the node", "")
	var err error
	if m, here := r.cfg.Agents.Community.Member(community.MemberID(s.Member)); s.Keep && here {
		_, err = r.cfg.Agents.Community.Send(ctx, m.ID, community.Signal{Perception: m.Accepts[0]})
	} else if o, e := r.Order(ctx, s.ID); e != nil {
		err = e
	} else {
		o.Ask = next.ask
		_, err = r.cfg.Agents.Do(ctx, o, community.Signal{})
	}
	switch {
	case err == nil:
		r.publishSession(s, session.Done, "", "")
	case ctx.Err() != nil: // the node ends: the task goes on at its next start
	case errors.Is(err, session.ErrInUse):
	default:
		r.publishSession(s, session.Failed, fmt.Sprintf("it could not go on: %v", err), "symbio sessions show "+s.ID)
	}
	r.relistApproval(ctx, s.ID)
}

// publishSession publishes the state of a session.
func (r *Resumer) publishSession(s session.Info, state session.State, why, mend string) {
	r.cfg.Sessions.Events.Publish(event.Event{Type: event.TypeSession, Agent: s.Member, Name: s.Name, Text: s.Title, Why: why,
		Part: event.Session{ID: s.ID, State: string(state), Mend: mend}})
}

// reportInterrupted publishes the tasks that the end of the node interrupted:
// all that can go on, and those that its latest end lost.
func (r *Resumer) reportInterrupted(ctx context.Context) error {
	open, err := r.unfinished(ctx, "")
	for _, s := range open {
		why, mend := "the node ended during this task", "symbio sessions resume "+s.ID
		if s.Dir != r.cfg.Dir {
			why += " in " + s.Dir
		}
		if m, here := r.cfg.Agents.Community.Member(community.MemberID(s.Member)); s.Keep && here {
			mend = "symbio send " + s.Member + " " + m.Accepts[0] // the session is in use
		}
		r.publishSession(s, s.State, why, mend)
	}
	for _, s := range r.cfg.Sessions.interrupted {
		if s.State == session.Lost && s.Parent == "" {
			r.publishSession(s, s.State, "the node ended during this task, whose caller "+cmp.Or(s.Requester, "symbio map")+" does not wait any more", "")
		}
	}
	return err
}

// Order returns the order that goes on with a session, with the definition,
// the model and the limits that it had.
func (r *Resumer) Order(ctx context.Context, id string) (o agent.Order, err error) {
	if r.cfg.Sessions.Journal == nil {
		return o, agent.ErrNoSessions
	}
	all, err := r.cfg.Sessions.Store().Sessions(ctx, session.Filter{ID: id})
	if err != nil {
		return o, err
	}
	if o.Session, err = session.Find(all, id); err != nil {
		return o, err
	}
	if o.Session.Parent != "" {
		return o, fmt.Errorf("session %s belongs to a sub-agent and goes on with its root; resume %s", o.Session.ID, o.Session.Root)
	}
	if o.Definition, err = r.cfg.Agents.Definitions.Find(o.Session.Agent); err != nil {
		return o, err
	}
	if o.Session.Model != "" {
		if o.Model, err = r.cfg.Model(ctx, o.Session.Model); err != nil {
			return o, err
		}
	}
	if agent.Mode(o.Session.Mode) == agent.ModePlan { // it only denies; edits is for as long as the person is there
		o.Mode = agent.ModePlan
	}
	o.Limits, o.Name = o.Session.Limits, o.Session.Name
	return o, nil
}

// Resume hands an interrupted session to ResumeAnswered, and
// returns its description.
func (r *Resumer) Resume(ctx context.Context, id string) (i session.Info, err error) {
	o, err := r.Order(ctx, id)
	switch i = o.Session; {
	case errors.Is(err, session.ErrNotFound):
		return i, community.Explain(community.ErrNotFound, err.Error())
	case err != nil:
		return i, community.Explain(community.ErrInvalid, err.Error())
	case r.cfg.Sessions.Journal.IsInUse(i.ID):
		return i, community.Explain(community.ErrBusy, fmt.Sprintf("session %s: %v", i.ID, session.ErrInUse))
	case !i.CanGoOn():
		return i, community.Explain(community.ErrInvalid, fmt.Sprintf("session %s has no interrupted task; it is %s", i.ID, i.State))
	}
	select {
	case r.resumed <- resumption{session: i}:
		i.State = session.Working
		return i, nil
	case <-ctx.Done():
		return i, context.Cause(ctx)
	}
}

// ResumeCapability is the capability with which people at other nodes go on with
// an interrupted task of this node, which then runs in the background. Its input
// is a session.Query with an ID, its reply the session.Info.
const ResumeCapability = authorize.SessionsPrefix + "resume"

// ReadCapability is the capability with which people at other nodes read the
// conversations of this node. Its input is a session.Query; its output is
// streamed, a line of JSON for each session.Line. The reply is their number. A
// rule of authorize must name it with its prefix.
const ReadCapability = authorize.SessionsPrefix + "read"

// reading is how many calls that read conversations are answered at a time: one reads the disk, the others wait for it.
const reading = 4

// Offer offers both capabilities with offer, if the node keeps sessions.
func (r *Resumer) Offer(offer func(community.Capability, community.Provider, ...community.OfferOption) error) error {
	if r.cfg.Sessions.Journal == nil {
		return nil
	}
	read := community.Capability{Name: ReadCapability, Description: "The conversations of this node and what they cost, as streamed lines of JSON. For people at other nodes: `symbio sessions list --on NODE`.", Idempotent: true,
		Input: json.RawMessage(`{"type":"object","required":["op"],"properties":{"op":{"enum":["list","show","search","cost"]},"limit":{"type":"integer","minimum":0}}}`)}
	resume := community.Capability{Name: ResumeCapability, Description: "Goes on with an interrupted task of this node, in the background.",
		Input: json.RawMessage(`{"type":"object","required":["id"],"properties":{"id":{"type":"string"}}}`)}
	err := offer(resume, approvals.RequirePerson(func(ctx context.Context, s community.Signal) (community.Reply, error) {
		var q session.Query
		if err := json.Unmarshal(s.Data, &q); err != nil {
			return community.Reply{}, fmt.Errorf("%w: %w", community.ErrInvalid, err)
		}
		i, err := r.Resume(ctx, q.ID)
		if err != nil {
			return community.Reply{}, err
		}
		data, err := json.Marshal(i)
		return community.Reply{Data: data, ContentType: "application/json"}, err
	}, "conversations are resumed by people, not by agents"))
	return errors.Join(err, offer(read, approvals.RequirePerson(func(ctx context.Context, s community.Signal) (community.Reply, error) {
		n, err := streamSessions(ctx, r.cfg.Sessions.Store(), s.Data)
		return community.Reply{Data: fmt.Append(nil, n), ContentType: "application/json"}, err
	}, "conversations are read by people, not by agents"), community.WithConcurrency(reading)))
}

// streamSessions sends the results of a query to the caller, and returns their
// number.
func streamSessions(ctx context.Context, store session.Store, query []byte) (int, error) {
	var q session.Query
	if err := json.Unmarshal(query, &q); err != nil {
		return 0, fmt.Errorf("%w: %w", community.ErrInvalid, err)
	}
	lines, err := q.Run(ctx, store)
	if errors.Is(err, session.ErrNotFound) {
		err = community.Explain(community.ErrNotFound, err.Error())
	}
	for _, l := range lines {
		var data []byte
		if err == nil {
			data, err = json.Marshal(l)
		}
		if err == nil {
			err = community.Emit(ctx, append(data, '\n'), "application/jsonl")
		}
	}
	return len(lines), err
}
