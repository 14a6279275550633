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
	"symbio/community"
	"symbio/internal/agent/placement"
	"symbio/internal/agent/team"
	"symbio/internal/agent/tool/peer"
)

// Replicate spawns a copy of the agent: the same definition and model, at most the same
// permissions, and the same budget (spec: Replicable; architecture: invariant 7). The error wraps
// budget.ErrExceeded if a limit is reached. It is safe for concurrent use.
func (a *Agent) Replicate(ctx context.Context, r community.Replica) (community.Member, error) {
	c, err := a.spawn(ctx, team.SpawnRequest{Reason: r.Reason, Name: r.Name, Node: r.Node, Keep: r.Keep})
	if err != nil {
		return community.Member{}, err
	}
	return c.Member, nil
}

// spawn starts a sub-agent and adds it to the team. On an error nothing is left of it: its place in
// the budget is released, and a member that was started already is terminated.
func (a *Agent) spawn(ctx context.Context, w team.SpawnRequest) (*team.Child, error) {
	have := a.set.Names()
	if unknown := slices.DeleteFunc(slices.Clone(w.Keep), func(name string) bool { return slices.Contains(have, name) }); len(unknown) > 0 {
		return nil, fmt.Errorf("you do not have the tools %v; yours are %v", unknown, have)
	}
	if w.Keep == nil {
		w.Keep = a.keepFor(w.Definition)
	}
	if w.Name == "" {
		w.Name = a.instance.nextName()
	}
	switch {
	case w.Node != "":
		return a.spawnNamed(ctx, w)
	case a.instance.factory.cfg.Chooser != nil:
		return a.place(ctx, w)
	case len(w.Where) > 0:
		return nil, fmt.Errorf("%w: this node places no tasks on others: leave where out", placement.ErrNone)
	}
	return spawnLocal(ctx, a, w, "")
}

// spawnLocal is spawn on this node. why is the reason for the place, if it was chosen.
func spawnLocal(ctx context.Context, a *Agent, w team.SpawnRequest, why string) (*team.Child, error) {
	if w.Workspace {
		return a.spawnInCopy(ctx, w, why)
	}
	return a.spawnHere(ctx, w, why, nil)
}

// spawnHere is spawn on this node. why is the reason for the place, if it was chosen. prepare, unless
// it is nil, completes the sub-agent before it starts.
func (a *Agent) spawnHere(ctx context.Context, w team.SpawnRequest, why string, prepare func(*instance)) (*team.Child, error) {
	parent := a.instance
	child, err := parent.newChild(ctx, w)
	if err != nil {
		return nil, err
	}
	if prepare != nil {
		prepare(child)
	}
	member, err := parent.factory.begin(ctx, w.Name, child)
	if err != nil {
		child.account.Close()
		return nil, err
	}
	c := &team.Child{Member: member, Handle: localHandle{child}, Account: child.account}
	if err := a.addChild(c, session.ChildAgent{Session: child.record.info().ID, Share: w.Share}); err != nil {
		return nil, errors.Join(err, parent.factory.cfg.Community.Terminate(ctx, member.ID))
	}
	parent.report(event.Event{Type: event.TypeSpawned, Text: w.Reason, Why: why, Part: event.Spawn{Member: string(member.ID)}})
	return c, nil
}

// addChild records a sub-agent, which must be durable before it gets a task, and adds it to the team.
func (a *Agent) addChild(c *team.Child, as session.ChildAgent) error {
	as.Member, as.Name = string(c.Member.ID), c.Member.Name
	if err := a.instance.record.Commit(session.Entry{Kind: session.Child, Child: &as}); err != nil {
		return err
	}
	return a.team.Add(c)
}

// newChild returns the instance of a sub-agent on this node, with a place in the budget. The caller
// must close the account if the sub-agent does not start.
func (i *instance) newChild(ctx context.Context, w team.SpawnRequest) (*instance, error) {
	def := i.def
	def.Output = nil // it is the answer of the whole task that a program reads
	_, model := i.settings.models()
	var most budget.Limits
	if w.Definition != "" && w.Definition != i.def.Name {
		var err error
		if def, model, err = i.factory.definition(ctx, w.Definition, model); err != nil {
			return nil, err
		}
		most = def.Budget // a copy has the same definition, whose budget limits the parent already
	}
	account, err := i.account.Open(ctx, most, w.Share)
	if err != nil {
		return nil, err
	}
	child := &instance{
		factory: i.factory, def: def, workspace: i.workspace, account: account, parent: i, ask: i.ask, declined: i.declined, artifacts: i.artifacts,
		permissions: i.permissions.newChild(w.Keep), settings: settings{parent: &i.settings, effort: cmp.Or(def.Effort, i.settings.currentEffort())},
	}
	return child.withModel(model), nil
}

// keepFor returns the tools that a sub-agent of a definition may use if the model names none; nil =
// all. It is at most the agent's own tools: an agent must not get a tool by spawning a sub-agent of
// another definition.
func (a *Agent) keepFor(definition string) []string {
	i := a.instance
	if i.def.Tools == nil || definition == "" || definition == i.def.Name {
		return i.permissions.keptTools
	}
	return slices.DeleteFunc(a.set.Names(), func(name string) bool { return !i.permissions.keepsTool(name) })
}

// teamConfig returns what the agent's team uses. Its functions run in the tools of this agent.
func (a *Agent) teamConfig() team.Config {
	i := a.instance
	return team.Config{
		Definition: i.def.Name,
		NextName:   i.nextName,
		Spawn:      a.spawn,
		Nodes: func(definition string, where []string) ([]community.MemberID, error) {
			return nodesFor(i, definition, where)
		},
		Send: exchange{a.borrower, i.factory, i.artifacts}.Send,
		Repeat: func(c *team.Child, w team.SpawnRequest, times int) bool {
			return times < maxRepeats && repeat(i, c, w)
		},
		Fix: i.permissions.fix,
		OnBehalf: func(ctx context.Context, to *team.Child) ([]byte, error) {
			return i.permissions.encodeConstraints(ctx, to.Member.Node != i.self.Node)
		},
		Deadline: func() (time.Time, error) {
			if t := i.task.currentBudget(); t != nil {
				return t.SummaryDue(), i.account.TimeExceeded()
			}
			return time.Now().Add(i.account.Wall()), i.account.TimeExceeded()
		},
		Done:            i.remoteTaskDone,
		PendingSteering: func() int { return a.conversation.PendingSteering() },
	}
}

// remoteTaskDone reports the end of a task on another node. Agents of other nodes do not report
// events here, so this node reports for them.
func (i *instance) remoteTaskDone(c *team.Child, text string, err error) {
	if c.Account == nil { // it waited for a place until it was stopped, or could not be started
		i.notice(fmt.Sprintf("%s did not begin: %v", c.Member.Name, err))
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
type localHandle struct{ instance *instance }

// Stop terminates the sub-agent and waits until it has ended. A sub-agent that is gone already is
// no error.
func (h localHandle) Stop(ctx context.Context) {
	err := h.instance.factory.cfg.Community.Terminate(ctx, h.instance.self.ID)
	if err != nil && !errors.Is(err, community.ErrNotFound) {
		h.instance.factory.cfg.Logger.Warn("sub-agent not terminated", "agent", h.instance.self.ID, "err", err)
	}
	if own := h.instance.copied; own != nil {
		if err := own.Close(); err != nil {
			h.instance.factory.cfg.Logger.Warn("workspace of a sub-agent not removed", "agent", h.instance.self.ID, "err", err)
		}
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

func (h localHandle) Activity() string { return h.instance.activity.summary() }
