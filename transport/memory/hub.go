package memory

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
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
}

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
	// random has the random sources; guarded by mu.
	random map[direction]*rand.Rand
	// changed is closed and replaced when messages may get through that did not before, or the
	// reverse; guarded by mu.
	changed chan struct{}
}

// direction is a direction between two nodes and a kind of message, as the key of a random source.
type direction struct {
	a, b community.NodeID
	what string
}

// NewHub returns a LAN without nodes.
func NewHub(cfg Config) *Hub {
	return &Hub{
		cfg:     cfg,
		nodes:   map[community.NodeID]*Node{},
		side:    map[community.NodeID]int{},
		frozen:  map[community.NodeID]bool{},
		random:  map[direction]*rand.Rand{},
		changed: make(chan struct{}),
	}
}

// Node returns the network of one node. The node is on the LAN while its Run runs. A node that
// ended or was killed needs a new one, with the same id if it is to be the same node.
func (h *Hub) Node(id community.NodeID, name string) *Node {
	return &Node{hub: h, id: id, name: name, killed: make(chan struct{}), links: map[community.NodeID]*link{}}
}

// Kill ends a node as kill -9 would: its streams break at once for every node that can reach it,
// without a goodbye, and it sends nothing more. It does nothing for a node that is not on the LAN.
func (h *Hub) Kill(id community.NodeID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := h.nodes[id]; n != nil && !n.isKilled() {
		close(n.killed)
	}
}

// Partition separates the given nodes from all others. Messages between the two sides wait, as TCP
// retransmits, until Heal or a timeout.
func (h *Hub) Partition(ids ...community.NodeID) {
	h.change(func() {
		h.sides++
		for _, id := range ids {
			h.side[id] = h.sides
		}
	})
}

// Heal undoes every Partition.
func (h *Hub) Heal() {
	h.change(func() { clear(h.side) })
}

// Freeze stops everything that a node sends and receives, like a laptop whose lid is closed. The
// node's own goroutines keep running, which other nodes cannot notice.
func (h *Hub) Freeze(id community.NodeID) {
	h.change(func() { h.frozen[id] = true })
}

// Wake undoes Freeze.
func (h *Hub) Wake(id community.NodeID) {
	h.change(func() { delete(h.frozen, id) })
}

// change runs f, which changes what gets through, under the lock, and wakes everything that waits
// for that.
func (h *Hub) change(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	close(h.changed)
	h.changed = make(chan struct{})
}

// open reports whether messages get from a to b now; the channel is closed when that may have
// changed.
func (h *Hub) open(a, b *Node) (bool, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.side[a.id] == h.side[b.id] && !h.frozen[a.id] && !h.frozen[b.id], h.changed
}

// attach puts a node on the LAN, in the place of a killed one of the same id. From now on the node
// watches all others, and they watch it. The error says that a living node has the id.
func (h *Hub) attach(n *Node) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if old := h.nodes[n.id]; old != nil && !old.isKilled() {
		return fmt.Errorf("node %s is on the network already: two nodes cannot have one identity", n.id)
	}
	h.nodes[n.id] = n
	for _, p := range h.nodes {
		if p != n && !p.isKilled() {
			p.start(func() { p.watch(n) })
			n.start(func() { n.watch(p) })
		}
	}
	return nil
}

// detach takes a node off the LAN.
func (h *Hub) detach(n *Node) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.nodes[n.id] == n {
		delete(h.nodes, n.id)
	}
}

// What is sent. Calls and streams draw from sources of their own, so that an event more or less
// does not change the fate of a call.
const (
	calls   = "calls"
	streams = "streams"
)

// draw decides when a message that is sent now from a to b arrives, and whether it is lost. Each
// direction and kind of message has a random source of its own, seeded by Config.Seed, so that a
// test's outcome does not depend on the order of goroutines.
func (h *Hub) draw(a, b *Node, what string) (arrives time.Time, lost bool) {
	arrives = time.Now().Add(h.cfg.Delay)
	if h.cfg.Jitter <= 0 && h.cfg.Loss <= 0 {
		return arrives, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	d := direction{a.id, b.id, what}
	r := h.random[d]
	if r == nil {
		// The seed depends on the names and not on the order in which directions are first used.
		sum := fnv.New64a()
		fmt.Fprint(sum, what, " from ", a.id, " to ", b.id)
		r = rand.New(rand.NewPCG(h.cfg.Seed, sum.Sum64()))
		h.random[d] = r
	}
	return arrives.Add(time.Duration(r.Int64N(int64(h.cfg.Jitter) + 1))), r.Float64() < h.cfg.Loss
}

// arrival returns when a message of a stream that is sent now arrives. A lost one is sent again.
func (h *Hub) arrival(a, b *Node) time.Time {
	arrives, lost := h.draw(a, b, streams)
	if lost {
		return arrives.Add(retransmit)
	}
	return arrives
}
