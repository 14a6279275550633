package community

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// roster has everyone that this node knows: its own agents and capabilities, and other nodes with theirs. One lock
// holds all of it, so that subscribers get changes in the order in which they happened.
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

// Members returns everyone: the agents of this node, and of other nodes the agents and the node
// itself, available or not, sorted by name. Their slices and maps are shared, and never to be changed.
func (r *roster) Members() []Member {
	return r.lockedPick(func(Member) bool { return true })
}

// Member returns the member of that id, here or elsewhere.
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

// Capability returns what a node, this one too, says of one of its capabilities. Another node's words
// are not to be trusted.
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

// Provided is a capability, and the node that offers it.
type Provided struct {
	Capability
	Node      NodeID
	NodeName  string
	Available bool // whether that node can be reached now; of this node's own always
}

// Capabilities returns what every node offers, this one included, sorted by name and node. Other nodes'
// words are not to be trusted.
func (r *roster) Capabilities() []Provided {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []Provided
	for _, o := range r.offers {
		all = append(all, Provided{o.Capability, r.cfg.Node, r.cfg.Name, true})
	}
	for id, n := range r.nodes {
		node, known := r.remote[MemberID(id)]
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
func (r *roster) Peer(id NodeID) (Peer, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	n, ok := r.nodes[id]
	if !ok || n.lease == nil {
		return Peer{}, false
	}
	return n.lease.peer, true
}

// Catalog is what this node lets others see now: its agents, its capabilities, and itself as the
// member that provides them.
func (r *roster) Catalog() Catalog {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.catalog()
}

// catalog needs r.mu, or its read lock.
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

func (r *roster) lockedPick(want func(Member) bool) []Member {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.pick(want)
}

// pick returns the members that want wants, sorted. It needs r.mu, or its read lock.
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

func byName(a, b Member) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(string(a.ID), string(b.ID)))
}
