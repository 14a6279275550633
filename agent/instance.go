package agent

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"symbio/agent/budget"
	"symbio/agent/definition"
	"symbio/agent/lending"
	"symbio/agent/llm"
	"symbio/agent/team"
	"symbio/agent/tool"
	"symbio/agent/tool/peer"
	"symbio/agent/tool/replicate"
	"symbio/agent/tool/security"
	"symbio/community"
)

// instance is what belongs to an agent from its spawn to its end, over restarts. It is safe for concurrent use: the fields
// without a lock are constant once the agent runs.
type instance struct {
	factory     *Factory
	def         definition.Definition
	permissions *permissions
	unmetered   llm.Model // that it pays for
	model       llm.Model // the same, metered
	account     *budget.Account
	keepAccount bool // the account is not renewed with each task
	parent      *instance
	lease       *lending.Lease // by which it is lent to another node; nil = it is not, or its parent is
	ask         func(ctx context.Context, d Asked) tool.Answer
	security    *security.Config // of the Order; nil = none, as for sub-agents, which are held with their parents
	declined    *declinedSkills  // of the agent without a parent from which it descends

	self    community.Member // set by setSelf
	address string           // names it among the requesters of what it asks for; set by setSelf

	task runningTask

	mu       sync.Mutex
	starts   int    // guarded by mu
	agent    *Agent // as it is now; guarded by mu
	activity string // what it does now, for its parent; guarded by mu
	copies   int    // guarded by mu
}

// setSelf says which member the agent is. It is called once, before the agent runs.
func (i *instance) setSelf(self community.Member) {
	i.self, i.address, i.permissions.self = self, peer.Address(self), self
}

// start returns the agent itself, at the spawn and after each restart. What ended with the one before it, its children,
// skills and place in the budget, is the new one's to take again; without a place it does not start.
func (i *instance) start(self community.Member) (*Agent, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.starts++; i.starts == 1 {
		i.setSelf(self)
	} else if err := i.rejoin(); err != nil {
		return nil, fmt.Errorf("agent %s, restarted: %w", self.Name, err)
	}
	i.factory.instances.add(i)
	i.agent = newAgent(i)
	return i.agent, nil
}

// end gives back the agent's place in the budget, its skills and their grants.
func (i *instance) end(ctx context.Context) error {
	i.factory.instances.remove(i)
	i.account.Close()
	if i.factory.cfg.Skills == nil {
		return nil
	}
	return i.factory.cfg.Skills.Release(ctx, string(i.self.ID))
}

// current returns the agent as it is now.
func (i *instance) current() *Agent {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.agent
}

// root returns the agent without a parent here from which this one descends.
func (i *instance) root() *instance {
	for i.parent != nil {
		i = i.parent
	}
	return i
}

func (i *instance) metadata() map[string]string {
	m := map[string]string{community.DefinitionKey: i.def.Name, "description": i.def.Description, "model": i.model.Name()}
	switch {
	case i.parent != nil:
		m["parent"] = string(i.parent.self.ID)
	case i.lease != nil:
		m["lent_to"] = string(i.lease.Node)
		if i.lease.Parent != "" {
			m["parent"] = string(i.lease.Parent)
		}
	}
	return m
}

// parentName names the agent's parent, for its model; "" = it has none.
func (i *instance) parentName() string {
	switch {
	case i.parent != nil:
		return i.parent.self.Name
	case i.lease != nil && i.lease.Parent != "":
		return strings.Join(i.permissions.remoteRequesters(i.lease.Requesters()), ", ") + ", on another node"
	}
	return ""
}

// hasTool reports whether the definition names a tool. One that may make sub-agents has the tools for them.
func (i *instance) hasTool(name string) bool {
	return i.def.HasTool(name) || team.IsOwnTool(name) && i.def.HasTool(replicate.Name)
}

// nextName returns a name for a copy that was given none.
func (i *instance) nextName() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.copies++
	return i.self.Name + "-" + strconv.Itoa(i.copies)
}

// report completes an event of the agent and reports it, to its parent and to the node that borrows it, too.
func (i *instance) report(e Event) {
	e.Agent, e.Name = i.self.ID, i.self.Name
	if i.parent != nil {
		e.Parent = i.parent.self.ID
	}
	i.recordActivity(e)
	i.reportToBorrower(e)
	i.factory.cfg.Report(e)
}

// recordActivity keeps what the agent does, for its parent.
func (i *instance) recordActivity(e Event) {
	if i.parent == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch e.Type {
	case EventCall:
		i.activity = "uses " + e.Tool
	case EventTurn:
		i.activity = fmt.Sprintf("turn %d", e.Turn)
	case EventTask, EventDone, EventFailed:
		i.activity = ""
	}
}

// currentActivity returns what the agent does now; "" = nothing.
func (i *instance) currentActivity() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.activity
}

// notice reports something that a person may want to know.
func (i *instance) notice(text string) { i.report(Event{Type: EventNotice, Text: text}) }
