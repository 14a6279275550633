package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"symbio/agent/budget"
	"symbio/agent/conversation"
	"symbio/agent/event"
	"symbio/agent/session"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/agent/content"
	"symbio/internal/agent/lending"
	"symbio/internal/agent/team"
	"symbio/internal/agent/tool/peer"
)

// subAgents are the sub-agents of an agent: its team, and what spawns them here and on other nodes.
type subAgents struct {
	parent   *instance
	skills   func(context.Context) ([]lending.Skill, error) // those that are active for the agent
	set      *tool.Set
	team     *team.Team
	borrower *lending.Borrower // borrows sub-agents from other nodes
}

// newSubAgents returns the sub-agents of an agent that has none yet. The caller sets the set.
func newSubAgents(i *instance, skills func(context.Context) ([]lending.Skill, error)) *subAgents {
	s := &subAgents{parent: i, skills: skills, borrower: &lending.Borrower{Community: i.factory.cfg.Community, Self: i.self}}
	s.borrower.Owner = s.borrowing
	s.team = team.New(s.teamConfig)
	return s
}

// Replicate spawns a copy of the agent: the same definition and model, at most the same
// permissions, and the same budget. The error wraps
// budget.ErrExceeded if a limit is reached. It is safe for concurrent use.
func (a *Agent) Replicate(ctx context.Context, r community.Replica) (community.Member, error) {
	c, err := a.subAgents.spawn(ctx, team.SpawnRequest{Reason: r.Reason, Name: r.Name, Node: r.Node, Keep: r.Keep}, nil)
	if err != nil {
		return community.Member{}, err
	}
	return c.Member, nil
}

// spawn starts a sub-agent and adds it to the team (design note 0064). With a skill to run, it is on this node and does not wait.
// On an error nothing is left of it: its place in the budget is released, and a member that was started already is terminated.
func (s *subAgents) spawn(ctx context.Context, w team.SpawnRequest, fork *forkedSkill) (c *team.Child, err error) {
	// 1. Its name, and the tools that it may use.
	if err := s.complete(&w); err != nil {
		return nil, err
	}
	// 2. A node with a free place, for which a task may wait. If that node refuses, the rest is done for the next one.
	release, err := s.place(ctx, w, fork != nil, func(at Place) (err error) {
		// 3. The copy of the parent's files that goes there.
		hash, files, err := s.sendWorkspace(ctx, w, at.Node)
		if err != nil {
			return err
		}
		// 4. A share of the budget, and the running agent.
		var as session.ChildAgent
		if at.Node.ID == "" {
			c, as, err = s.start(ctx, w, hash, files, fork)
		} else {
			c, as, err = s.borrow(ctx, w, hash, at.Node)
		}
		if err != nil {
			return err
		}
		c.Workspace = files
		// 5. The record of it, which must be durable before it gets a task, and the team.
		as.Member, as.Name, as.Share = string(c.Member.ID), c.Member.Name, w.Share
		if err = s.parent.record.Commit(session.Entry{Kind: session.Child, Child: &as}); err == nil {
			err = s.team.Add(c)
		}
		if err != nil {
			c.Handle.Stop(ctx)
			return err
		}
		s.parent.events.report(event.Event{Type: event.TypeSpawned, Text: w.Reason, Why: at.Reason,
			Part: event.Spawn{Member: string(c.Member.ID), On: as.On}})
		return nil
	})
	if err != nil {
		return nil, err
	}
	// 6. The place is taken until the end of the lease or of the task; without a task there is none.
	switch b, remote := c.Handle.(*lending.BorrowedAgent); {
	case release == nil:
	case remote:
		b.OnEnd(release)
	case w.Waiting == nil:
		release()
	default:
		c.Release = release
	}
	return c, nil
}

// complete gives a request its name and tools. The error says which of the tools the agent does not have itself.
func (s *subAgents) complete(w *team.SpawnRequest) error {
	have := s.set.Names()
	if unknown := slices.DeleteFunc(slices.Clone(w.Keep), func(name string) bool { return slices.Contains(have, name) }); len(unknown) > 0 {
		return fmt.Errorf("you do not have the tools %v; yours are %v", unknown, have)
	}
	if w.Keep == nil {
		w.Keep = s.keepFor(w.Definition)
	}
	if w.Name == "" {
		w.Name = s.parent.nextName()
	}
	return nil
}

// start starts a sub-agent on this node, with a skill to run, and in the workspace that hash is of, unless files or fork is nil.
func (s *subAgents) start(ctx context.Context, w team.SpawnRequest, hash content.Hash, files *team.Workspace,
	fork *forkedSkill) (_ *team.Child, as session.ChildAgent, err error) {
	at := s.parent.order.Workspace
	var own *team.OwnWorkspace
	if files != nil {
		if own, err = s.parent.factory.cfg.Workspaces.Checkout(ctx, "", hash); err != nil {
			return nil, as, err
		}
		at, files.Call = &Workspace{own.Dir, own.Tools}, own.Call
	}
	child, err := s.parent.newChild(ctx, w, at)
	var m community.Member
	if err == nil {
		fork.prepare(ctx, s.parent, child)
		m, err = child.factory.begin(ctx, w.Name, child)
	}
	if err != nil {
		return nil, as, errors.Join(err, own.Close())
	}
	return &team.Child{Member: m, Handle: localHandle{child, own}, Account: child.task.account},
		session.ChildAgent{Session: child.record.info().ID}, nil
}

// newChild returns the instance of a sub-agent on this node, with a place in the budget. The caller
// must close the account if the sub-agent does not start.
func (i *instance) newChild(ctx context.Context, w team.SpawnRequest, at *Workspace) (*instance, error) {
	def := i.order.Definition
	def.Output = nil // it is the answer of the whole task that a program reads
	_, model := i.settings.models()
	if i.program != nil {
		model = nil // it is of no use to another agent
	}
	var most budget.Limits
	if w.Definition != "" && w.Definition != i.order.Definition.Name {
		var err error
		if def, model, err = i.factory.definition(ctx, w.Definition, model); err != nil {
			return nil, err
		}
		most = def.Budget // a copy has the same definition, whose budget limits the parent already
	}
	account, err := i.task.account.Open(ctx, most, w.Share)
	if err != nil {
		return nil, err
	}
	child := &instance{
		factory: i.factory, order: Order{Definition: def, Workspace: at, Ask: i.order.Ask, Model: model}, task: runningTask{account: account},
		parent: i, artifacts: i.artifacts,
		permissions: i.permissions.newChild(w.Keep), settings: settings{parent: &i.settings, effort: cmp.Or(def.Effort, i.settings.currentEffort())},
	}
	child.permissions.dir = at.Dir
	return child.connect(), nil
}

// keepFor returns the tools that a sub-agent of a definition may use if the model names none; nil =
// all. It is at most the agent's own tools: an agent must not get a tool by spawning a sub-agent of
// another definition.
func (s *subAgents) keepFor(definition string) []string {
	i := s.parent
	if i.order.Definition.Tools == nil || definition == "" || definition == i.order.Definition.Name {
		return i.permissions.keptTools
	}
	return slices.DeleteFunc(s.set.Names(), func(name string) bool { return !i.permissions.keepsTool(name) })
}

// teamConfig returns what the agent's team uses. Its functions run in the tools of this agent.
func (s *subAgents) teamConfig() team.Config {
	i := s.parent
	return team.Config{
		Definition: i.order.Definition.Name,
		NextName:   i.nextName,
		Spawn:      func(ctx context.Context, w team.SpawnRequest) (*team.Child, error) { return s.spawn(ctx, w, nil) },
		Nodes:      s.nodes,
		Send:       exchange{s.borrower, i.factory, i.artifacts}.Send,
		Repeat:     s.repeat,
		Fix:        i.permissions.fix,
		OnBehalf: func(ctx context.Context, to *team.Child) ([]byte, error) {
			return i.permissions.encodeConstraints(ctx, to.Member.Node != i.self.Node)
		},
		Deadline: func() (time.Time, error) {
			if t := i.task.currentBudget(); t != nil {
				return t.SummaryDue(), i.task.account.TimeExceeded()
			}
			return time.Now().Add(i.task.account.Wall()), i.task.account.TimeExceeded()
		},
		Done:            s.remoteTaskDone,
		PendingSteering: func() int { return i.agent.Load().conversation.PendingSteering() },
	}
}

// remoteTaskDone reports the end of a task on another node. Agents of other nodes do not report
// events here, so this node reports for them.
func (s *subAgents) remoteTaskDone(c *team.Child, text string, err error) {
	i := s.parent
	if c.Account == nil { // it waited for a place until it was stopped, or could not be started
		i.events.notice(fmt.Sprintf("%s did not begin: %v", c.Member.Name, err))
		return
	}
	if c.Member.Node == i.self.Node {
		return
	}
	e := event.Event{Type: event.TypeDone, Agent: string(c.Member.ID), Name: c.Member.Name, Parent: string(i.self.ID), Text: text,
		Part: event.End{Spent: new(c.Account.Total())}}
	if err != nil {
		e.Type, e.Text, e.Why = event.TypeFailed, "", err.Error()
	}
	i.factory.cfg.Report(e)
}

// localHandle is the team.Handle of a sub-agent on this node.
type localHandle struct {
	instance *instance
	own      *team.OwnWorkspace // that was made for it; nil = none
}

// Stop terminates the sub-agent and waits until it has ended. A sub-agent that is gone already is
// no error.
func (h localHandle) Stop(ctx context.Context) {
	err := h.instance.factory.cfg.Community.Terminate(ctx, h.instance.self.ID)
	if err != nil && !errors.Is(err, community.ErrNotFound) {
		h.instance.factory.cfg.Logger.Warn("sub-agent not terminated", "agent", h.instance.self.ID, "err", err)
	}
	if err := h.own.Close(); err != nil {
		h.instance.factory.cfg.Logger.Warn("workspace of a sub-agent not removed", "agent", h.instance.self.ID, "err", err)
	}
}

// Gone returns an error if the sub-agent is no member any more.
func (h localHandle) Gone() error {
	if _, here := h.instance.factory.cfg.Community.Member(h.instance.self.ID); here {
		return nil
	}
	return errors.New("it has ended")
}

// Steer delivers a text of the parent's model. It carries the parent's constraints, like a task.
func (h localHandle) Steer(ctx context.Context, text string) (conversation.Receipt, error) {
	constraints, err := h.instance.parent.permissions.encodeConstraints(ctx, false)
	if err != nil {
		return conversation.Receipt{}, err
	}
	return h.instance.factory.SteerFrom(ctx, h.instance.self.ID, text, community.Signal{Requester: peer.Requester(ctx), OnBehalf: constraints})
}

func (h localHandle) Activity() string { return h.instance.events.summary() }
