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
	// Loss is the part, from 0 to 1, of what is sent that is lost. Default: nothing.
	Loss float64
	// Seed decides what is lost and how long the jitter is.
	Seed uint64
	// Heartbeat is how often a node shows that it lives; three missed ones and it is lost.
	// Default 1 s: the architecture promises to notice within 3 s.
	Heartbeat time.Duration
	// Logger receives the nodes that connect and that are lost. Default: silent.
	Logger *slog.Logger
}

// maxMissed is how many heartbeats have to fail to come.
const maxMissed = 3

// Hub is the LAN. Its methods may be called concurrently, at any time.
type Hub struct {
	cfg Config

	mu           sync.Mutex
	nodes        map[community.NodeID]*Node // those that run, or were killed; guarded by mu
	side         map[community.NodeID]int   // which side of the partition, 0 = the main one; guarded by mu
	sides        int                        // guarded by mu
	frozen       map[community.NodeID]bool  // guarded by mu
	dialOnly     map[string]bool            // by name; guarded by mu
	random       map[direction]*rand.Rand   // guarded by mu
	alive        []*Node                    // the nodes that live, sorted; nil = to be made anew; guarded by mu
	nodesChanged chan struct{}              // closed and made anew when nodes come or go; guarded by mu
	pathsChanged chan struct{}              // closed and made anew when other things get through; guarded by mu
}

// direction is a direction between two nodes, and what is sent there.
type direction struct {
	a, b community.NodeID
	what string
}

// NewHub returns a LAN with no nodes.
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

// Node returns the end of the network for a node. It is on the LAN while its Run runs. For a node
// that ended, or was killed, ask for a new one with the same id.
func (h *Hub) Node(id community.NodeID, name string) *Node {
	return &Node{
		hub: h, id: id, name: name,
		killed:   make(chan struct{}),
		links:    map[community.NodeID]*link{},
		watchers: map[*link]struct{}{},
	}
}

// Kill ends a node as kill -9 would: its streams break at once, for everybody who can reach it, and
// it is never heard of again.
func (h *Hub) Kill(id community.NodeID) {
	h.updateNodes(func() {
		if n := h.nodes[id]; n != nil && !n.isKilled() {
			close(n.killed)
		}
	})
}

// Partition lets nothing through between the given nodes and all others, and keeps it waiting.
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

// Freeze stops all that a node sends and receives, as when a laptop's lid is closed. Its own
// goroutines go on, but nobody can tell.
func (h *Hub) Freeze(id community.NodeID) {
	h.updatePaths(func() { h.frozen[id] = true })
}

// Wake undoes Freeze.
func (h *Hub) Wake(id community.NodeID) {
	h.updatePaths(func() { delete(h.frozen, id) })
}

// OnlyDialsOut lets nobody reach the nodes of that name, now or later, who is not reached by them first, as a
// NAT or a firewall would.
func (h *Hub) OnlyDialsOut(name string) {
	h.updateNodes(func() { h.dialOnly[name] = true })
}

// canReach reports whether a node may be reached by another, and when that may change; gone says that it is not
// on the LAN any more.
func (h *Hub) canReach(to, from *Node) (ok, gone bool, changed <-chan struct{}) {
	h.mu.Lock()
	shut, gone, changed := h.dialOnly[to.name], h.nodes[to.id] != to || to.isKilled(), h.nodesChanged
	h.mu.Unlock()
	return !shut || to.hasLink(from.id), gone, changed
}

// notifyReached wakes those who may be let in now that a node has reached another, if anybody only dials out.
func (h *Hub) notifyReached() {
	h.mu.Lock()
	shut := len(h.dialOnly) > 0
	h.mu.Unlock()
	if shut {
		h.updateNodes(func() {})
	}
}

// updatePaths changes what gets through, and wakes whoever waits for that.
func (h *Hub) updatePaths(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	close(h.pathsChanged)
	h.pathsChanged = make(chan struct{})
}

// updateNodes changes who is there, and wakes whoever waits for that: the nodes, and not every stream of
// each, of which there are many more.
func (h *Hub) updateNodes(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	h.alive = nil
	close(h.nodesChanged)
	h.nodesChanged = make(chan struct{})
}

// open tells whether something can get from a to b now, and when that may change.
func (h *Hub) open(a, b community.NodeID) (bool, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.side[a] == h.side[b] && !h.frozen[a] && !h.frozen[b], h.pathsChanged
}

// all are the nodes that live, and when that may change. The slice must not be changed.
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

// draw decides what happens to one thing sent from a to b.
func (h *Hub) draw(a, b community.NodeID, what string) (delay time.Duration, lost bool) {
	if h.cfg.Jitter <= 0 && h.cfg.Loss <= 0 {
		return h.cfg.Delay, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.random[direction{a, b, what}]
	if r == nil {
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
