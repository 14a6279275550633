package dashboard

import (
	"context"

	"symbio/agent/event"
	"symbio/internal/agent/node/fleet"
	symbiov1 "symbio/proto/symbio/v1"
)

// communityPage returns the page of machines and trees of agents.
func communityPage() page {
	return page{Path: "/{$}", Name: "community", Title: "Community", Nav: true, Live: true, Data: communityData}
}

// community is the data of the page.
type community struct {
	Machines []machine
	Total    *symbiov1.FleetNode
	Latest   []event.Event
}

// machine is a node with its agents, each after its parent.
type machine struct {
	*symbiov1.FleetNode
	Rows []agentRow
}

// agentRow is an agent in the tree of its node. Origin is the parent if that is
// on another node.
type agentRow struct {
	fleet.AgentRow
	Origin *symbiov1.FleetAgent
}

// communityData returns the community.
func communityData(ctx context.Context, v *view) (any, error) {
	f, err := v.fleet(ctx)
	if err != nil {
		return nil, err
	}
	c := community{Total: f.Total(), Latest: f.Latest("", 12)}
	for _, n := range f.NodeRows() {
		c.Machines = append(c.Machines, machine{n, agentRows(f, n.GetId())})
	}
	return c, nil
}

// maxIndent is how deep the rows of a tree are indented.
const maxIndent = 6

// agentRows returns the agents of a node as a tree, siblings by name.
func agentRows(f *fleet.Overview, node string) (rows []agentRow) {
	for _, a := range f.AgentRows(func(a *symbiov1.FleetAgent) bool { return a.GetNode() == node }) {
		row := agentRow{AgentRow: a}
		row.Depth = min(a.Depth, maxIndent)
		if p := f.Agents[a.GetParent()]; p.GetNode() != node {
			row.Origin = p
		}
		rows = append(rows, row)
	}
	return rows
}
