package agent

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"symbio/agent/budget"
	"symbio/agent/definition"
	"symbio/agent/event"
	"symbio/agent/session"
	"symbio/agent/tool"
	"symbio/agent/tool/replicate"
	"symbio/agent/tool/security"
	"symbio/community"
	"symbio/internal/agent/lending"
	"symbio/internal/agent/team"
	"symbio/internal/agent/tool/peer"
	"symbio/skills"
)

// instance holds the state of an agent from its spawn to its end. It survives restarts, while the
// Agent is made anew. It is safe for concurrent use: the fields without a lock are constant once
// the agent runs.
type instance struct {
	factory     *Factory
	def         definition.Definition
	workspace   Workspace
	copied      *ownWorkspace // that workspace if it was made for the agent as a sub-agent of this node; nil = it was not
	permissions *permissions
	settings    settings
	account     *budget.Account
	keepAccount bool // the account is not renewed with each task
	parent      *instance
	lease       *lending.Lease // set if the agent is lent to another node; nil for its descendants
	ask         func(ctx context.Context, d ApprovalRequest) tool.Answer
	attended    bool                    // a person waits for its answers; never of a sub-agent
	security    *security.Config        // of the Order; nil = none, as for sub-agents, which have their parents' constraints
	record      record                  // the session; its zero value keeps nothing
	newSession  session.Info            // what a new session of the agent begins with
	forked      *skills.ActivateRequest // the skill for which a sub-agent was spawned; nil = none
	declined    *sync.Map               // keys of skills that a person declined, shared by all agents of one tree: a person is not asked twice
	artifacts   *artifacts              // shared by all agents of one tree

	self    community.Member // set by setSelf
	address string           // peer.Address of self, its name in Signal.Requester; set by setSelf

	sampling sync.Mutex // held while an MCP server asks the model, since the record has one request at a time
	task     runningTask
	activity activity

	starts int // used by start only

	// mu guards the fields below. It is held for a moment only.
	mu     sync.Mutex
	agent  *Agent // replaced at each restart; guarded by mu
	copies int    // guarded by mu
}

// setSelf sets the member that the agent is. It is called once, before the agent runs.
func (i *instance) setSelf(self community.Member) {
	i.self, i.address, i.permissions.self = self, peer.Address(self), self
	i.activity.now.Since = time.Now() // only this goroutine knows the instance
	i.record.log.Load().SetMember(self.Name, string(self.ID))
}

// start makes the Agent, at the spawn and after each restart. A restarted agent has lost its
// children, and must reserve its place in the budget and its session again, which may take a call to
// another node; if that fails it does not start. One call runs at a time.
func (i *instance) start(self community.Member) (_ *Agent, err error) {
	if i.starts++; i.starts == 1 {
		i.setSelf(self)
		for _, w := range i.def.Warnings {
			if w.File = filepath.Base(w.File); i.parent == nil || i.parent.def.File != i.def.File {
				i.notice(w.Error())
			}
		}
	} else if err := i.reopenAccount(); err != nil {
		return nil, fmt.Errorf("agent %s, restarted: %w", self.Name, err)
	} else if i.record.past, err = i.record.log.Load().Reopen(context.Background()); err != nil { // the end of the failed agent has closed it
		return nil, fmt.Errorf("agent %s, restarted: %w", self.Name, err)
	}
	if err := i.record.log.Load().SetKeep(i.newSession.Keep); err != nil { // the end of the failed agent has unset it
		return nil, fmt.Errorf("agent %s: %w", self.Name, err)
	}
	if i.parent == nil {
		i.artifacts.start(i.record.past)
		for _, dir := range i.factory.leftovers.Remove(i.workspace.Dir) {
			i.notice(dir + " is left of a patch that was not applied to its end. Files that you had may be only there: put back what you need, and remove it.")
		}
	}
	a := newAgent(i)
	i.mu.Lock()
	i.agent = a
	i.mu.Unlock()
	i.factory.instances.add(i)
	if i.parent == nil {
		_, leftOut := a.files()
		for _, why := range leftOut {
			i.notice(why)
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
	i.account.Close()
	if err := i.record.log.Load().SetKeep(false); err != nil {
		i.factory.cfg.Logger.Warn("the agent will live again when the node starts", "agent", i.self.ID, "err", err)
	}
	i.record.log.Load().Close()
	if i.factory.cfg.Skills == nil {
		return nil
	}
	return i.factory.cfg.Skills.Release(ctx, string(i.self.ID))
}

// current returns the Agent of the latest start.
func (i *instance) current() *Agent {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.agent
}

// root returns the ancestor that has no parent on this node.
func (i *instance) root() *instance {
	for i.parent != nil {
		i = i.parent
	}
	return i
}

// metadata returns what other members can read about the agent. The keys parent and lent_to are how
// people see the tree.
func (i *instance) metadata() map[string]string {
	m := map[string]string{community.DefinitionKey: i.def.Name, "description": i.def.Description, "model": currentModel{i}.Name()}
	if parent := i.parentID(); parent != "" {
		m["parent"] = string(parent)
	}
	if i.lease != nil {
		m["lent_to"] = string(i.lease.Node)
	}
	return m
}

// parentID returns the agent that spawned this one, also on another node; "" = it has no parent.
func (i *instance) parentID() community.MemberID {
	switch {
	case i.parent != nil:
		return i.parent.self.ID
	case i.lease != nil:
		return i.lease.Parent
	}
	return ""
}

// parentName names the agent's parent, for the system prompt; "" = it has no parent.
func (i *instance) parentName() string {
	switch {
	case i.parent != nil:
		return i.parent.self.Name
	case i.lease != nil && i.lease.Parent != "":
		return strings.Join(i.permissions.remoteRequesters(i.lease.Requesters()), ", ") + ", on another node"
	}
	return ""
}

// hasTool reports whether the definition names a tool. A definition with replicate_agent has the
// tools for sub-agents, too.
func (i *instance) hasTool(name string) bool {
	return i.def.HasTool(name) || team.IsOwnTool(name) && i.def.HasTool(replicate.Name)
}

// nextName returns the name of a sub-agent for which the model chose none: the agent's name and a
// number.
func (i *instance) nextName() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.copies++
	return i.self.Name + "-" + strconv.Itoa(i.copies)
}

// report adds the agent's identity to an event and passes it to the parent's view, to a borrowing
// node, and to Config.Report.
func (i *instance) report(e event.Event) {
	e.Agent, e.Name = string(i.self.ID), i.self.Name
	if i.parent != nil {
		e.Parent = string(i.parent.self.ID)
	}
	i.noteActivity(e)
	i.reportToBorrower(e)
	i.factory.cfg.Report(e)
}

// notice reports a message for people.
func (i *instance) notice(text string) { i.report(event.Event{Type: event.TypeNotice, Text: text}) }
