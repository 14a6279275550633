package memory

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"symbio/community"
)

// Config sets up a Hub. The zero value is a perfect network.
type Config struct {
	// Delay is how long everything takes from one node to another, and Jitter how much longer it may
	// take at random. Default: no time at all.
	Delay, Jitter time.Duration
	// Loss is the fraction of messages that are lost, from 0 to 1. Default: 0.
	Loss float64
	// Seed decides which messages are lost and how long the jitter is.
	Seed uint64
	// Heartbeat is how often a node shows that it lives; three missed ones and it is lost.
	// Default 1 s: the architecture promises to notice within 3 s.
	Heartbeat time.Duration
	// Logger receives the nodes that connect and that are lost. Default: silent.
	Logger *slog.Logger
}

// maxMissed is how many heartbeats may be missing before a node counts as lost, as in
// transport/grpcpeer.
const maxMissed = 3

// Hub is a simulated LAN. Its methods may be called concurrently, at any time, also by tests that
// change the network while nodes run.
type Hub struct {
	cfg Config

	mu sync.Mutex
	// nodes are those that run or were killed; guarded by mu.
	nodes map[community.NodeID]*Node
	// side is the side of the partition that a node is on; absent = 0, the main one; guarded by mu.
	side map[community.NodeID]int
	// sides counts the calls of Partition, so that each makes a side of its own; guarded by mu.
	sides int
	// frozen are the nodes that Freeze has stopped; guarded by mu.
	frozen map[community.NodeID]bool
	// dialOnly are the names of OnlyDialsOut; guarded by mu.
	dialOnly map[string]bool
	// random has the random sources; guarded by mu.
	random map[direction]*rand.Rand
	// alive are the living nodes, sorted by id; nil = to be computed again; guarded by mu.
	alive []*Node
	// nodesChanged is closed and replaced when nodes come or go; guarded by mu.
	nodesChanged chan struct{}
	// pathsChanged is closed and replaced when messages may get through that did not before, or the
	// reverse; guarded by mu.
	pathsChanged chan struct{}
}

// direction is a direction between two nodes and a kind of message, as the key of a random source.
type direction struct {
	a, b community.NodeID
	what string
}

// NewHub returns a LAN without nodes.
func NewHub(cfg Config) *Hub {
	if cfg.Heartbeat <= 0 {
		cfg.Heartbeat = time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Hub{
		cfg:          cfg,
		nodes:        map[community.NodeID]*Node{},
		side:         map[community.NodeID]int{},
		frozen:       map[community.NodeID]bool{},
		dialOnly:     map[string]bool{},
		random:       map[direction]*rand.Rand{},
		nodesChanged: make(chan struct{}),
		pathsChanged: make(chan struct{}),
	}
}

// Node returns the network of one node. The node is on the LAN while its Run runs. A node that
// ended or was killed needs a new one, with the same id if it is to be the same node.
func (h *Hub) Node(id community.NodeID, name string) *Node {
	return &Node{
		hub: h, id: id, name: name,
		killed:   make(chan struct{}),
		links:    map[community.NodeID]*link{},
		watchers: map[*link]struct{}{},
	}
}

// Kill ends a node as kill -9 would: its streams break at once for every node that can reach it,
// without a goodbye, and it sends nothing more. It does nothing for a node that is not on the LAN.
func (h *Hub) Kill(id community.NodeID) {
	h.updateNodes(func() {
		if n := h.nodes[id]; n != nil && !n.isKilled() {
			close(n.killed)
		}
	})
}

// Partition separates the given nodes from all others. Messages between the two sides wait, as TCP
// retransmits, until Heal or a timeout.
func (h *Hub) Partition(ids ...community.NodeID) {
	h.updatePaths(func() {
		h.sides++
		for _, id := range ids {
			h.side[id] = h.sides
		}
	})
}

// Heal undoes every Partition.
func (h *Hub) Heal() {
	h.updatePaths(func() { clear(h.side) })
}

// Freeze stops everything that a node sends and receives, like a laptop whose lid is closed. The
// node's own goroutines keep running, which other nodes cannot notice.
func (h *Hub) Freeze(id community.NodeID) {
	h.updatePaths(func() { h.frozen[id] = true })
}

// Wake undoes Freeze.
func (h *Hub) Wake(id community.NodeID) {
	h.updatePaths(func() { delete(h.frozen, id) })
}

// OnlyDialsOut makes the nodes of that name unreachable for nodes that they have not connected to
// first, like a NAT or a firewall. It holds for nodes that join later, too.
func (h *Hub) OnlyDialsOut(name string) {
	h.updateNodes(func() { h.dialOnly[name] = true })
}

// canReach reports whether node to can be reached from node from. gone reports that it has left the
// LAN; changed is closed when either may have changed.
func (h *Hub) canReach(to, from *Node) (ok, gone bool, changed <-chan struct{}) {
	h.mu.Lock()
	shut, gone, changed := h.dialOnly[to.name], h.nodes[to.id] != to || to.isKilled(), h.nodesChanged
	h.mu.Unlock()
	return !shut || to.hasLink(from.id), gone, changed
}

// notifyReached wakes the watchers that may be able to connect because a node has connected to
// another one. Without OnlyDialsOut there are none, and nothing is woken.
func (h *Hub) notifyReached() {
	h.mu.Lock()
	shut := len(h.dialOnly) > 0
	h.mu.Unlock()
	if shut {
		h.updateNodes(func() {})
	}
}

// updatePaths runs f, which changes what gets through, under the lock, and wakes everything that
// waits for a path.
func (h *Hub) updatePaths(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	close(h.pathsChanged)
	h.pathsChanged = make(chan struct{})
}

// updateNodes runs f, which changes the nodes on the LAN, under the lock, and wakes the nodes.
// Streams are not woken: there are many more of them, and they notice the end of a node by its
// killed channel.
func (h *Hub) updateNodes(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	// A new slice is computed later; callers of all may still read the old one.
	h.alive = nil
	close(h.nodesChanged)
	h.nodesChanged = make(chan struct{})
}

// open reports whether messages get from a to b now; the channel is closed when that may have
// changed.
func (h *Hub) open(a, b community.NodeID) (bool, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.side[a] == h.side[b] && !h.frozen[a] && !h.frozen[b], h.pathsChanged
}

// all returns the nodes that are alive, sorted by id; the channel is closed when that changes. The
// slice is shared and must not be changed.
func (h *Hub) all() ([]*Node, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.alive == nil {
		h.alive = make([]*Node, 0, len(h.nodes))
		for _, n := range h.nodes {
			if !n.isKilled() {
				h.alive = append(h.alive, n)
			}
		}
		slices.SortFunc(h.alive, func(a, b *Node) int { return cmp.Compare(a.id, b.id) })
	}
	return h.alive, h.nodesChanged
}

// What is sent. Calls and streams draw from sources of their own, so that a heartbeat more or less
// does not change the fate of a call.
const (
	calls   = "calls"
	streams = "streams"
)

// draw decides the delay of one message from a to b, and whether it is lost. Each direction and
// kind of message has a random source of its own, seeded by Config.Seed, so that a test's outcome
// does not depend on the order of goroutines.
func (h *Hub) draw(a, b community.NodeID, what string) (delay time.Duration, lost bool) {
	if h.cfg.Jitter <= 0 && h.cfg.Loss <= 0 {
		return h.cfg.Delay, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.random[direction{a, b, what}]
	if r == nil {
		// The seed depends on the names and not on the order in which directions are first used.
		sum := fnv.New64a()
		fmt.Fprint(sum, what, " from ", a, " to ", b)
		r = rand.New(rand.NewPCG(h.cfg.Seed, sum.Sum64()))
		h.random[direction{a, b, what}] = r
	}
	delay = h.cfg.Delay
	if h.cfg.Jitter > 0 {
		delay += time.Duration(r.Int64N(int64(h.cfg.Jitter) + 1))
	}
	return delay, r.Float64() < h.cfg.Loss
}
