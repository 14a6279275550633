package community

import "slices"

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
		o, ok := c.offers[name]
		return o.Capability, ok
	}
	n, ok := c.nodes[node]
	if !ok {
		return Capability{}, false
	}
	p, ok := n.capabilities[name]
	return p, ok
}

// Refused returns how many members and capabilities that peers announced were not taken in, because
// they were not theirs to announce, or beyond the limits.
func (c *Community) Refused() uint64 { return c.refused.Load() }
