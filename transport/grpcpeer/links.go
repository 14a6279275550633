package grpcpeer

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"sync"

	"symbio/community"
	"symbio/transport/grpcpeer/internal/introduced"
)

// links is the table of connected nodes: at most one link per node id. Reads (get, all) do not
// lock, because every call does one; writes lock mu.
type links struct {
	self   community.NodeID
	byNode sync.Map // community.NodeID -> *link; written under mu

	mu sync.Mutex
	// reversing are the nodes that have opened a connection which is not their link yet; guarded by mu.
	reversing map[community.NodeID]bool
	// known are the acquaintances, nil after a link has begun or ended; never changed; guarded by mu.
	known *[]acquaintance
}

// newLinks returns an empty table of the node self.
func newLinks(self community.NodeID) *links {
	return &links{self: self, reversing: map[community.NodeID]bool{}}
}

// get returns the link to a node, and whether there is one. The link may end at any moment; its
// calls fail then.
func (t *links) get(id community.NodeID) (*link, bool) {
	v, ok := t.byNode.Load(id)
	if !ok {
		return nil, false
	}
	return v.(*link), true
}

// count returns how many links there are.
func (t *links) count() (n int) {
	for range t.all() {
		n++
	}
	return n
}

// all iterates over the links in no order. Links may be added and removed meanwhile.
func (t *links) all() iter.Seq[*link] {
	return func(yield func(*link) bool) {
		t.byNode.Range(func(_, v any) bool { return yield(v.(*link)) })
	}
}

// add makes l the link to its node and returns nil. If the node has a link already, add changes
// nothing and returns that link; the caller closes l. Two candidates may reach the same node by
// different addresses at the same time.
func (t *links) add(l *link) (other *link) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if other, ok := t.get(l.peer.ID); ok {
		return other
	}
	t.byNode.Store(l.peer.ID, l)
	t.known = nil
	return nil
}

// remove deletes the link to a node.
func (t *links) remove(id community.NodeID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byNode.Delete(id)
	t.known = nil
}

// reserve notes that a reversed connection of the node becomes its link, unless there is a link or another such
// connection. release undoes it.
func (t *links) reserve(id community.NodeID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, linked := t.get(id); linked || t.reversing[id] {
		return false
	}
	t.reversing[id] = true
	return true
}

// release undoes reserve, after the reversed connection has become the link or has failed.
func (t *links) release(id community.NodeID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.reversing, id)
}

// callable reports whether this node can call the node now or in a moment: there is a link, or a
// reversed connection is becoming one.
func (t *links) callable(id community.NodeID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, linked := t.get(id)
	return linked || t.reversing[id]
}

// acquaintance is a node that this one has dialed and is linked with.
type acquaintance struct {
	id   community.NodeID
	addr netip.AddrPort
}

// acquaintances returns the nodes to introduce, sorted by id. In a large cluster these are the nodes whose ids
// follow this node's own, so that each node is introduced by some. The slice is the same until a link begins or
// ends.
func (t *links) acquaintances() *[]acquaintance {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known != nil {
		return t.known
	}
	var all []acquaintance
	for l := range t.all() {
		// A link-local address means nothing to others, and a reversed link or a WebSocket has none.
		if l.at.addr.IsValid() && !l.at.addr.Addr().IsLinkLocalUnicast() {
			all = append(all, acquaintance{l.peer.ID, l.at.addr})
		}
	}
	byID := func(a, b acquaintance) int { return cmp.Compare(a.id, b.id) }
	slices.SortStableFunc(all, byID)
	if len(all) > introduced.MaxNodes {
		next, _ := slices.BinarySearchFunc(all, acquaintance{id: t.self}, byID)
		all = slices.Concat(all[next:], all[:next])[:introduced.MaxNodes]
		slices.SortStableFunc(all, byID)
	}
	t.known = &all
	return t.known
}
