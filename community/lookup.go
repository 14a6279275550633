package community

import (
	"cmp"
	"slices"
)

// Members returns everyone: the agents of this node, and of other nodes the agents and the node
// itself, available or not, sorted by name. Their slices and maps are shared, and never to be changed.
func (c *Community) Members() []Member {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.everyone()
}

// Member returns the member of that id, here or elsewhere.
func (c *Community) Member(id MemberID) (Member, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if r, ok := c.residents[id]; ok {
		return r.self, true
	}
	m, ok := c.remote[id]
	return m, ok
}

// WhoCanReceive returns the available members that accept the perception, sorted by name.
func (c *Community) WhoCanReceive(perception string) []Member {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.pick(func(m Member) bool { return m.Available && slices.Contains(m.Accepts, perception) })
}

// WhoProvides returns the available members of other nodes that provide the capability, sorted by
// name.
func (c *Community) WhoProvides(capability string) []Member {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.pick(func(m Member) bool { return m.Available && slices.Contains(m.Provides, capability) })
}

// Capability returns what a node, this one too, says of one of its capabilities. Of another node it
// is data from a stranger.
func (c *Community) Capability(node NodeID, name string) (Capability, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if node == c.cfg.Node {
		if o, ok := c.offers[name]; ok {
			return o.Capability, true
		}
		return Capability{}, false
	}
	n, ok := c.nodes[node]
	if !ok {
		return Capability{}, false
	}
	p, ok := n.capabilities[name]
	if !ok {
		return Capability{}, false
	}
	return p.Capability, true
}

// Provided is a capability, and the node that offers it.
type Provided struct {
	Capability
	Node      NodeID
	NodeName  string
	Available bool // whether that node can be reached now; of this node's own always
}

// Capabilities returns what every node offers, this one included, sorted by name and node. Of other
// nodes it is data from strangers.
func (c *Community) Capabilities() []Provided {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var all []Provided
	for _, o := range c.offers {
		all = append(all, Provided{o.Capability, c.cfg.Node, c.cfg.Name, true})
	}
	for id, n := range c.nodes {
		node, known := c.remote[MemberID(id)]
		for name, s := range n.capabilities {
			// Only what the node's member provides can be invoked.
			if known && slices.Contains(node.Provides, name) {
				all = append(all, Provided{s.Capability, id, node.Name, node.Available && n.lease != nil})
			}
		}
	}
	slices.SortFunc(all, func(a, b Provided) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.NodeName, b.NodeName), cmp.Compare(a.Node, b.Node))
	})
	return all
}

// Peer returns another node as its certificate proves it, while it is connected.
func (c *Community) Peer(id NodeID) (Peer, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	n, ok := c.nodes[id]
	if !ok || n.lease == nil {
		return Peer{}, false
	}
	return n.peer, true
}

// Refused returns how many members and capabilities that peers announced were not taken in, because
// they were not theirs to announce, or beyond the limits.
func (c *Community) Refused() uint64 { return c.refused.Load() }
