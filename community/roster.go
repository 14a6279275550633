package community

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// roster has all members and capabilities that this node knows, its own and other nodes'. One lock guards
// everything, so that subscribers get the changes in the order in which they happened.
type roster struct {
	cfg *Config

	mu      sync.RWMutex
	closing bool                     // Run has begun to end; guarded by mu
	agents  map[MemberID]*localAgent // of this node; guarded by mu
	offers  map[string]*offer        // capabilities of this node; guarded by mu
	remote  map[MemberID]Member      // members of other nodes; guarded by mu
	nodes   map[NodeID]*remoteNode   // other nodes, also those lost and not forgotten; guarded by mu
	// subs are the subscriptions to this node's own changes under true, those to all under false.
	subs map[bool]map[*Subscription]struct{} // guarded by mu
}

func newRoster(cfg *Config) *roster {
	return &roster{
		cfg:    cfg,
		agents: map[MemberID]*localAgent{},
		offers: map[string]*offer{},
		remote: map[MemberID]Member{},
		nodes:  map[NodeID]*remoteNode{},
		subs:   map[bool]map[*Subscription]struct{}{true: {}, false: {}},
	}
}

// Members returns all members, available or not, sorted by name: the agents of this node, the agents of other
// nodes, and the other nodes. Callers must not change their slices and maps, which are shared.
func (c *Community) Members() []Member { return c.roster.lockedPick(func(Member) bool { return true }) }

// Member returns the member with that id, of this node or another.
func (c *Community) Member(id MemberID) (Member, bool) {
	c.roster.mu.RLock()
	defer c.roster.mu.RUnlock()
	if a, ok := c.roster.agents[id]; ok {
		return a.self, true
	}
	m, ok := c.roster.remote[id]
	return m, ok
}

// WhoCanReceive returns the available members that accept the perception, sorted by name.
func (c *Community) WhoCanReceive(perception string) []Member {
	return c.roster.lockedPick(func(m Member) bool { return m.Available && slices.Contains(m.Accepts, perception) })
}

// WhoProvides returns the available members of other nodes that provide the capability, sorted by
// name.
func (c *Community) WhoProvides(capability string) []Member {
	return c.roster.lockedPick(func(m Member) bool { return m.Available && slices.Contains(m.Provides, capability) })
}

// Capability returns a capability of a node, also of this one. The description of another node's capability is not
// to be trusted.
func (c *Community) Capability(node NodeID, name string) (Capability, bool) {
	c.roster.mu.RLock()
	defer c.roster.mu.RUnlock()
	if o := c.roster.offers[name]; node == c.cfg.Node && o != nil {
		return o.Capability, true
	}
	if n := c.roster.nodes[node]; n != nil && n.capabilities[name] != nil {
		return n.capabilities[name].Capability, true
	}
	return Capability{}, false
}

// NodeCapability is a capability with the node that offers it.
type NodeCapability struct {
	Capability
	Node      NodeID
	NodeName  string
	Available bool // whether that node can be reached now; of this node's own always
}

// Capabilities returns the capabilities of all nodes, also of this one, sorted by name and node. The descriptions
// of other nodes are not to be trusted.
func (c *Community) Capabilities() []NodeCapability {
	c.roster.mu.RLock()
	defer c.roster.mu.RUnlock()
	var all []NodeCapability
	for _, o := range c.roster.offers {
		all = append(all, NodeCapability{o.Capability, c.cfg.Node, c.cfg.Name, true})
	}
	for id, n := range c.roster.nodes {
		node, known := c.roster.remote[MemberID(id)]
		for name, s := range n.capabilities {
			// Only what the node's member provides can be invoked.
			if known && slices.Contains(node.Provides, name) {
				all = append(all, NodeCapability{s.Capability, id, node.Name, node.Available && n.lease != nil})
			}
		}
	}
	slices.SortFunc(all, func(a, b NodeCapability) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.NodeName, b.NodeName), cmp.Compare(a.Node, b.Node))
	})
	return all
}

// Peer returns another node as its certificate proves it. ok is false while it is not connected.
func (c *Community) Peer(id NodeID) (Peer, bool) {
	c.roster.mu.RLock()
	defer c.roster.mu.RUnlock()
	n, ok := c.roster.nodes[id]
	if !ok || n.lease == nil {
		return Peer{}, false
	}
	return n.lease.peer, true
}

// Catalog returns what other nodes may see: this node's agents and capabilities, and the node itself as the member
// that provides them.
func (c *Community) Catalog() Catalog {
	c.roster.mu.RLock()
	defer c.roster.mu.RUnlock()
	return c.roster.catalog()
}

// catalog is Catalog for a caller that holds r.mu, at least for reading.
func (r *roster) catalog() Catalog {
	self := Member{ID: MemberID(r.cfg.Node), Name: r.cfg.Name, Node: r.cfg.Node, Available: true, Metadata: r.metadata()}
	all := Catalog{Members: make([]Member, 0, len(r.agents)+1)}
	for _, a := range r.agents {
		all.Members = append(all.Members, a.self)
	}
	for _, o := range r.offers {
		if o.drains && r.cfg.Draining.IsOn() {
			continue
		}
		all.Capabilities = append(all.Capabilities, o.Capability)
		self.Provides = append(self.Provides, o.Name)
	}
	slices.Sort(self.Provides)
	slices.SortFunc(all.Capabilities, func(a, b Capability) int { return strings.Compare(a.Name, b.Name) })
	all.Members = append(all.Members, self)
	slices.SortFunc(all.Members, byName)
	return all
}

// lockedPick is pick with the lock.
func (r *roster) lockedPick(want func(Member) bool) []Member {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.pick(want)
}

// pick returns the members for which want returns true, sorted. The caller must hold r.mu, at least for reading.
func (r *roster) pick(want func(Member) bool) []Member {
	var all []Member
	for _, a := range r.agents {
		if want(a.self) {
			all = append(all, a.self)
		}
	}
	for _, m := range r.remote {
		if want(m) {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, byName)
	return all
}

// byName orders members by name, then by id, so that equal names have a fixed order.
func byName(a, b Member) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(string(a.ID), string(b.ID)))
}
