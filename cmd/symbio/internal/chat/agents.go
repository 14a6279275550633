package chat

import (
	"cmp"
	"slices"
	"time"

	"symbio/agent/budget"
	"symbio/agent/event"
)

// Agents are the agents of a conversation, as the events tell of them. The zero value has none. It is for one goroutine.
type Agents struct {
	// Root is the id of the first agent, Order the ids of all, at most maxAgents: each below its parent, behind the agents of the
	// same parent that came before it.
	Root  string
	Order []string
	byID  map[string]*AgentRow
	// lent are the nodes of the agents that live on others, by the id of the agent. Their events come from the node that lent
	// them.
	lent map[string]string
}

// AgentRow is one agent of the tree; Depth is 0 for the first one.
type AgentRow struct {
	ID, Name, Node, Task, State string
	Depth                       int
	// Began is when its current task began. Before the first task it is the time of the first event about the agent.
	Began time.Time
	// Tokens are the tokens of the latest request, until Spent is known.
	Tokens int
	Spent  *budget.Spent
}

// maxAgents bounds Agents.Order.
const maxAgents = 2000

// Get returns an agent; nil if no event was about it.
func (s *Agents) Get(id string) *AgentRow { return s.byID[id] }

// Event returns the row of the agent of an event, and creates it at the first event. The first agent that is seen is the
// root; the depth of others follows from the parent in the event. An event without an agent, such as a warning of the node,
// gets a row of its own that is not kept.
func (s *Agents) Event(e event.Event) *AgentRow {
	if e.Agent == "" {
		return &AgentRow{}
	}
	a := s.byID[e.Agent]
	if a == nil {
		a = &AgentRow{ID: e.Agent, Began: e.Time}
		at := len(s.Order)
		if p := s.byID[e.Parent]; p != nil {
			a.Depth = p.Depth + 1
			at = slices.Index(s.Order, e.Parent) + 1 // 0 for a parent that was left out
			for at < len(s.Order) && s.byID[s.Order[at]].Depth > p.Depth {
				at++
			}
		}
		if s.Root == "" {
			s.Root, s.byID = e.Agent, map[string]*AgentRow{}
		}
		if s.byID[e.Agent] = a; len(s.Order) < maxAgents {
			s.Order = slices.Insert(s.Order, at, e.Agent)
		}
	}
	if f := event.PartOf[event.Spawn](e); f.On != "" && f.Member != "" {
		if s.lent == nil {
			s.lent = map[string]string{}
		}
		s.lent[f.Member] = f.On
	}
	a.Name, a.Node = cmp.Or(e.Name, a.Name), cmp.Or(s.lent[e.Agent], e.Node, a.Node)
	return a
}
