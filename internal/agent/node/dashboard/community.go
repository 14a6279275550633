package dashboard

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"symbio/agent/event"
	symbiov1 "symbio/proto/symbio/v1"
)

// communityPage returns the page of machines and trees of agents.
func communityPage() page {
	return page{Path: "/{$}", Name: "community", Title: "Community", Nav: true, Live: true, Data: communityData}
}

// community is the data of the page.
type community struct {
	Machines []machine
	Agents   int
	Working  int
	Waiting  int
	Cost     float64
	Latest   []event.Event
}

// machine is a node with its agents, each after its parent.
type machine struct {
	*symbiov1.FleetNode
	Rows []agentRow
}

// agentRow is an agent and its depth in the tree of its node. Origin is the
// parent if that is on another node.
type agentRow struct {
	*symbiov1.FleetAgent
	Depth  int
	Origin *symbiov1.FleetAgent
}

// communityData returns the community.
func communityData(ctx context.Context, v *view) (any, error) {
	f, err := v.fleet(ctx)
	if err != nil {
		return nil, err
	}
	c := community{Latest: f.latest("", 12)}
	for _, n := range f.Nodes() {
		c.Machines = append(c.Machines, machine{n, f.rows(n.GetId())})
		c.Agents += int(n.GetAgents())
		c.Working += int(n.GetWorking())
		c.Waiting += int(n.GetWaiting())
		c.Cost += n.GetSpent().GetCost()
	}
	return c, nil
}

// maxDepth is how deep the rows of a tree are indented. It also ends the walk
// along parents that a hostile node claims in a circle.
const maxDepth = 6

// rows returns the agents of a node as a tree, siblings by name.
func (f *fleet) rows(node string) (rows []agentRow) {
	children := map[string][]*symbiov1.FleetAgent{}
	for _, a := range slices.SortedFunc(maps.Values(f.agents), func(a, b *symbiov1.FleetAgent) int {
		return cmp.Or(cmp.Compare(a.GetName(), b.GetName()), cmp.Compare(a.GetId(), b.GetId()))
	}) {
		if a.GetNode() != node {
			continue
		}
		parent := ""
		if p := f.agents[a.GetParent()]; p.GetNode() == node && p.GetId() != a.GetId() {
			parent = p.GetId()
		}
		children[parent] = append(children[parent], a)
	}
	var add func(parent string, depth int)
	add = func(parent string, depth int) {
		below := children[parent]
		delete(children, parent)
		for _, a := range below {
			row := agentRow{FleetAgent: a, Depth: min(depth, maxDepth)}
			if p := f.agents[a.GetParent()]; p.GetNode() != node {
				row.Origin = p
			}
			rows = append(rows, row)
			add(a.GetId(), depth+1)
		}
	}
	add("", 0)
	return rows
}
