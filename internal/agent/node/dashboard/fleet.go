package dashboard

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"slices"

	"symbio/agent/event"
	nodefleet "symbio/internal/agent/node/fleet"
	symbiov1 "symbio/proto/symbio/v1"
)

// maxEvents is how many events a fleet keeps.
const maxEvents = 100

// fleet is the community as the changes of WatchFleet tell it. It is used by
// one goroutine.
type fleet struct {
	nodes  map[string]*symbiov1.FleetNode
	agents map[string]*symbiov1.FleetAgent
	events []event.Event // the newest last
}

// newFleet returns a fleet without nodes.
func newFleet() *fleet {
	return &fleet{nodes: map[string]*symbiov1.FleetNode{}, agents: map[string]*symbiov1.FleetAgent{}}
}

// apply takes over a change.
func (f *fleet) apply(c *symbiov1.FleetChange) {
	nodefleet.Apply(c, f.nodes, f.agents)
	f.events = append(f.events, nodefleet.Events(c)...)
	f.events = f.events[max(0, len(f.events)-maxEvents):]
}

// Nodes returns the nodes: the one of this dashboard first, then by name.
func (f *fleet) Nodes() []*symbiov1.FleetNode {
	return slices.SortedFunc(maps.Values(f.nodes), func(a, b *symbiov1.FleetNode) int {
		if a.GetSelf() != b.GetSelf() {
			return map[bool]int{true: -1, false: 1}[a.GetSelf()]
		}
		return cmp.Or(cmp.Compare(a.GetName(), b.GetName()), cmp.Compare(a.GetId(), b.GetId()))
	})
}

// latest returns the latest events, at most most, the newest last. agent is
// their agent; "" = all.
func (f *fleet) latest(agent string, most int) (all []event.Event) {
	for _, e := range f.events {
		if agent == "" || e.Agent == agent {
			all = append(all, e)
		}
	}
	return all[max(0, len(all)-most):]
}

// fetchFleet asks the node for the community as it is now.
func (d *Dashboard) fetchFleet(ctx context.Context) (*fleet, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := d.cfg.Client.WatchFleet(ctx, &symbiov1.FleetRequest{Once: true})
	if err != nil {
		return nil, err
	}
	f := newFleet()
	for {
		switch part, err := stream.Recv(); {
		case errors.Is(err, io.EOF):
			return f, nil
		case err != nil:
			return nil, err
		default:
			f.apply(part)
		}
	}
}
