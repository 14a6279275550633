package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"

	"symbio/agent/event"
	symbiov1 "symbio/proto/symbio/v1"
)

// Overview is the community as the changes of WatchFleet tell it: what a screen or a page shows. It is for one goroutine.
type Overview struct {
	// Nodes and Agents have the latest of each id.
	Nodes  map[string]*symbiov1.FleetNode
	Agents map[string]*symbiov1.FleetAgent
	// Self is the node that sends the changes; nil before the first one.
	Self *symbiov1.FleetNode
	// Events are the latest, the newest last.
	Events []event.Event
}

// maxEventRows bounds Overview.Events; the oldest go first.
const maxEventRows = 500

// NewOverview returns an Overview without nodes.
func NewOverview() *Overview {
	return &Overview{Nodes: map[string]*symbiov1.FleetNode{}, Agents: map[string]*symbiov1.FleetAgent{}}
}

// Fetch asks a node for the community as it is now.
func Fetch(ctx context.Context, client symbiov1.ControlClient) (*Overview, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.WatchFleet(ctx, &symbiov1.FleetRequest{Once: true})
	o := NewOverview()
	for err == nil {
		var c *symbiov1.FleetChange
		if c, err = stream.Recv(); err == nil {
			o.Apply(c)
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return o, nil
}

// Apply takes a change up. With a node its agents go, too.
func (o *Overview) Apply(c *symbiov1.FleetChange) {
	for _, id := range c.GetRemovedNodes() {
		delete(o.Nodes, id)
		maps.DeleteFunc(o.Agents, func(_ string, a *symbiov1.FleetAgent) bool { return a.GetNode() == id })
	}
	for _, id := range c.GetRemovedAgents() {
		delete(o.Agents, id)
	}
	for _, n := range c.GetNodes() {
		if o.Nodes[n.GetId()] = n; n.GetSelf() {
			o.Self = n
		}
	}
	for _, a := range c.GetAgents() {
		o.Agents[a.GetId()] = a
	}
	o.Events = append(o.Events, Events(c)...)
	o.Events = o.Events[max(0, len(o.Events)-maxEventRows):]
}

// Events returns the events of a change. Entries that are no events are left out.
func Events(c *symbiov1.FleetChange) (all []event.Event) {
	for _, m := range c.GetEvents() {
		var e event.Event
		if json.Unmarshal(m.GetJson(), &e) == nil {
			all = append(all, e)
		}
	}
	return all
}

// Latest returns the latest events of an agent, at most most, the newest last. agent "" means all agents.
func (o *Overview) Latest(agent string, most int) (all []event.Event) {
	for _, e := range o.Events {
		if agent == "" || e.Agent == agent {
			all = append(all, e)
		}
	}
	return all[max(0, len(all)-most):]
}

// Total returns what all nodes together have, as if they were one.
func (o *Overview) Total() *symbiov1.FleetNode {
	t := &symbiov1.FleetNode{Spent: &symbiov1.Spending{}}
	for _, n := range o.Nodes {
		t.Agents, t.Working, t.Waiting = t.GetAgents()+n.GetAgents(), t.GetWorking()+n.GetWorking(), t.GetWaiting()+n.GetWaiting()
		t.Spent.Input += n.GetSpent().GetInput()
		t.Spent.Output += n.GetSpent().GetOutput()
		t.Spent.Cost += n.GetSpent().GetCost()
	}
	return t
}

// NodeRows returns the nodes: Self, then the others by name.
func (o *Overview) NodeRows() []*symbiov1.FleetNode {
	return slices.SortedFunc(maps.Values(o.Nodes), func(a, b *symbiov1.FleetNode) int {
		return cmp.Compare(o.nodeKey(a.GetId(), a.GetName()), o.nodeKey(b.GetId(), b.GetName()))
	})
}

// nodeKey returns a text by which nodes are sorted.
func (o *Overview) nodeKey(id, name string) string {
	if id == o.Self.GetId() {
		return ""
	}
	return "\x01" + name + "\x00" + id
}

// AgentRow is an agent in a list of trees. Depth counts the agents of the list above it.
type AgentRow struct {
	*symbiov1.FleetAgent
	Depth int
	// path has what the agents above it and it are sorted by, the highest first.
	path []string
}

// maxDepth bounds the agents above one that are looked at. Parents can form a circle, as a lying node can report.
const maxDepth = 32

// AgentRows returns the agents that show chooses, as trees: an agent stands below the one that spawned it, on whatever node;
// if that one is not chosen, below the next above it that is. Siblings are sorted by node and name.
func (o *Overview) AgentRows(show func(*symbiov1.FleetAgent) bool) (rows []AgentRow) {
	shown := map[string]bool{}
	for id, a := range o.Agents {
		shown[id] = show(a)
	}
	for id, a := range o.Agents {
		if !shown[id] {
			continue
		}
		var path []string
		for up, steps := a, 0; up != nil && steps < maxDepth; up, steps = o.Agents[up.GetParent()], steps+1 {
			if shown[up.GetId()] {
				path = append(path, o.nodeKey(up.GetNode(), up.GetNodeName())+"\x00"+up.GetName()+"\x00"+up.GetId())
			}
		}
		slices.Reverse(path)
		rows = append(rows, AgentRow{a, len(path) - 1, path})
	}
	slices.SortFunc(rows, func(a, b AgentRow) int { return slices.Compare(a.path, b.path) })
	return rows
}
