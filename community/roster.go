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
func (r *roster) Members() []Member { return r.lockedPick(func(Member) bool { return true }) }

// Member returns the member with that id, of this node or another.
func (r *roster) Member(id MemberID) (Member, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if a, ok := r.agents[id]; ok {
		return a.self, true
	}
	m, ok := r.remote[id]
	return m, ok
}

// WhoCanReceive returns the available members that accept the perception, sorted by name.
func (r *roster) WhoCanReceive(perception string) []Member {
	return r.lockedPick(func(m Member) bool { return m.Available && slices.Contains(m.Accepts, perception) })
}

// WhoProvides returns the available members of other nodes that provide the capability, sorted by
// name.
func (r *roster) WhoProvides(capability string) []Member {
	return r.lockedPick(func(m Member) bool { return m.Available && slices.Contains(m.Provides, capability) })
}

// Capability returns a capability of a node, also of this one. The description of another node's capability is not
// to be trusted.
func (r *roster) Capability(node NodeID, name string) (Capability, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if o := r.offers[name]; node == r.cfg.Node && o != nil {
		return o.Capability, true
	}
	if n := r.nodes[node]; n != nil && n.capabilities[name] != nil {
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
func (r *roster) Capabilities() []NodeCapability {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []NodeCapability
	for _, o := range r.offers {
		all = append(all, NodeCapability{o.Capability, r.cfg.Node, r.cfg.Name, true})
	}
	for id, n := range r.nodes {
		node, known := r.remote[MemberID(id)]
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
func (r *roster) Peer(id NodeID) (Peer, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	n, ok := r.nodes[id]
	if !ok || n.lease == nil {
		return Peer{}, false
	}
	return n.lease.peer, true
}

// Catalog returns what other nodes may see: this node's agents and capabilities, and the node itself as the member
// that provides them.
func (r *roster) Catalog() Catalog {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.catalog()
}

// catalog is Catalog for a caller that holds r.mu, at least for reading.
func (r *roster) catalog() Catalog {
	self := Member{ID: MemberID(r.cfg.Node), Name: r.cfg.Name, Node: r.cfg.Node, Available: true, Metadata: r.cfg.Metadata}
	all := Catalog{Members: make([]Member, 0, len(r.agents)+1)}
	for _, a := range r.agents {
		all.Members = append(all.Members, a.self)
	}
	for _, o := range r.offers {
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
