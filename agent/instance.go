package agent

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"symbio/agent/definition"
	"symbio/community"
	"symbio/internal/agent/team"
	"symbio/internal/agent/tool/peer"
)

// instance holds the state of an agent from its spawn to its end. It survives restarts, while the
// Agent is made anew. It is safe for concurrent use: the fields without a lock are constant once
// the agent runs.
type instance struct {
	factory     *Factory
	order       Order // how it was made; a sub-agent's parent chose it
	parent      *instance
	permissions *permissions
	settings    settings
	record      record      // the session; its zero value keeps nothing
	artifacts   *artifacts  // shared by all agents of one tree
	worktree    ownWorktree // replaced at each restart

	program  Program // does the work; nil = a model does
	approver *approver
	events   events
	self     community.Member // set by setSelf
	task     runningTask
	agent    atomic.Pointer[Agent] // replaced at each restart
	copies   atomic.Int64          // the number of the last sub-agent for which the model chose no name
}

// connect joins the owners of the state of a new instance.
func (i *instance) connect() *instance {
	i.events = events{permissions: i.permissions}
	if i.parent != nil {
		i.events.parent = &i.parent.events
	}
	i.record.journal = i.factory.cfg.Journal
	i.settings.task = &i.task
	if !i.order.Definition.Program.IsZero() && i.factory.cfg.Programs != nil { // without Programs begin refuses it
		i.program = newProgram(i)
		i.order.Model = i.program
	}
	i.settings.setModel(i.order.Model)
	i.approver = &approver{&i.factory.cfg, i.order.Ask, i.permissions, &i.settings, &i.record, &i.events}
	return i
}

// setSelf sets the member that the agent is. It is called once, before the agent runs.
func (i *instance) setSelf(self community.Member) {
	i.self, i.permissions.self, i.permissions.address = self, self, peer.Address(self)
	i.events.now.Since = time.Now() // only this goroutine knows the instance
	i.record.log.Load().SetMember(self.Name, string(self.ID))
}

// start makes the Agent, at the spawn and after each restart. A restarted agent has lost its
// children, and must reserve its place in the budget and its session again, which may take a call to
// another node; if that fails it does not start. One call runs at a time.
func (i *instance) start(self community.Member) (_ *Agent, err error) {
	if i.self.ID == "" {
		i.setSelf(self)
		for _, w := range i.order.Definition.Warnings {
			if w.File = filepath.Base(w.File); i.parent == nil || i.parent.order.Definition.File != i.order.Definition.File {
				i.events.notice(w.Error())
			}
		}
	} else if err := i.reopenAccount(); err != nil {
		return nil, fmt.Errorf("agent %s, restarted: %w", self.Name, err)
	} else if i.record.past, err = i.record.log.Load().Reopen(context.Background()); err != nil { // the end of the failed agent has closed it
		return nil, fmt.Errorf("agent %s, restarted: %w", self.Name, err)
	}
	if err := i.record.log.Load().SetKeep(i.order.Session.Keep); err != nil { // the end of the failed agent has unset it
		return nil, fmt.Errorf("agent %s: %w", self.Name, err)
	}
	if at, err := i.worktree.open(&i.factory.cfg, i.order, i.program != nil, i.self, &i.events); err != nil {
		return nil, err
	} else if at != nil {
		i.order.Workspace, i.permissions.dir = at, at.Dir
	}
	if i.parent == nil {
		i.artifacts.start(i.record.past)
		for _, dir := range i.factory.cfg.Workspaces.RemoveLeftovers(i.order.Workspace.Dir) {
			i.events.notice(dir + " is left of a patch that was not applied to its end. Files that you had may be only there: put back what you need, and remove it.")
		}
	}
	a := newAgent(i)
	i.agent.Store(a)
	i.factory.instances.add(i)
	if i.parent == nil {
		_, leftOut := a.files()
		for _, why := range leftOut {
			i.events.notice(why)
		}
	}
	return a, nil
}

// end releases the agent's place in the budget, its skills, and the rules that they granted.
func (i *instance) end(ctx context.Context) error {
	i.factory.instances.remove(i)
	if i.parent == nil {
		i.artifacts.end()
		if kept := i.factory.cfg.Approvals; kept != nil {
			kept.End(string(i.self.ID))
		}
	}
	if i.program != nil {
		i.program.Close()
	}
	i.worktree.close(ctx)
	i.task.account.Close()
	if err := i.record.log.Load().SetKeep(false); err != nil {
		i.factory.cfg.Logger.Warn("the agent will live again when the node starts", "agent", i.self.ID, "err", err)
	}
	i.record.log.Load().Close()
	if i.factory.cfg.Skills == nil {
		return nil
	}
	return i.factory.cfg.Skills.Release(ctx, string(i.self.ID))
}

// metadata returns what other members can read about the agent. The keys parent and lent_to are how
// people see the tree.
func (i *instance) metadata() map[string]string {
	m := map[string]string{community.DefinitionKey: i.order.Definition.Name, "description": i.order.Definition.Description,
		"model": i.settings.modelName()}
	if parent := i.parentID(); parent != "" {
		m["parent"] = string(parent)
	}
	if lease := i.permissions.lease; lease != nil {
		m["lent_to"] = string(lease.Node)
	}
	return m
}

// parentID returns the agent that spawned this one, also on another node; "" = it has no parent.
func (i *instance) parentID() community.MemberID {
	switch lease := i.permissions.lease; {
	case i.parent != nil:
		return i.parent.self.ID
	case lease != nil:
		return lease.Parent
	}
	return ""
}

// parentName names the agent's parent, for the system prompt; "" = it has no parent.
func (i *instance) parentName() string {
	switch lease := i.permissions.lease; {
	case i.parent != nil:
		return i.parent.self.Name
	case lease != nil && lease.Parent != "":
		return strings.Join(i.permissions.remoteRequesters(lease.Requesters()), ", ") + ", on another node"
	}
	return ""
}

// hasTool reports whether a definition names a tool, or has it as team.HasTool says.
func hasTool(def definition.Definition, name string) bool { return team.HasTool(name, def.HasTool) }

// nextName returns the name of a sub-agent for which the model chose none: the agent's name and a
// number.
func (i *instance) nextName() string { return fmt.Sprintf("%s-%d", i.self.Name, i.copies.Add(1)) }
