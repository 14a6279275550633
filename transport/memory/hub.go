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
	// Logger receives who connects and who is lost. Default: silent.
	Logger *slog.Logger
}

// missed is how many heartbeats have to fail to come.
const missed = 3

// Hub is the LAN. Its methods may be called at any time, by anybody.
type Hub struct {
	cfg Config

	mu      sync.Mutex
	nodes   map[community.NodeID]*Node // those that run, or were killed; guarded by mu
	apart   map[community.NodeID]int   // which side of the partition, 0 = the main one; guarded by mu
	sides   int                        // guarded by mu
	frozen  map[community.NodeID]bool  // guarded by mu
	shut    map[string]bool            // by name; guarded by mu
	chance  map[string]*rand.Rand      // guarded by mu
	changed chan struct{}              // closed and made anew when any of the above changes; guarded by mu
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
		cfg:     cfg,
		nodes:   map[community.NodeID]*Node{},
		apart:   map[community.NodeID]int{},
		frozen:  map[community.NodeID]bool{},
		shut:    map[string]bool{},
		chance:  map[string]*rand.Rand{},
		changed: make(chan struct{}),
	}
}

// Node returns the end of the network for a node. It is on the LAN while its Run runs. For a node
// that ended, or was killed, ask for a new one with the same id.
func (h *Hub) Node(id community.NodeID, name string) *Node {
	return &Node{
		hub: h, id: id, name: name,
		killed: make(chan struct{}),
		links:  map[community.NodeID]*link{},
	}
}

// Kill ends a node as kill -9 would: its streams break at once, for everybody who can reach it, and
// it is never heard of again.
func (h *Hub) Kill(id community.NodeID) {
	h.change(func() {
		if n := h.nodes[id]; n != nil && !n.dead() {
			close(n.killed)
		}
	})
}

// Partition lets nothing through between the given nodes and all others, and keeps it waiting.
func (h *Hub) Partition(ids ...community.NodeID) {
	h.change(func() {
		h.sides++
		for _, id := range ids {
			h.apart[id] = h.sides
		}
	})
}

// Heal undoes every Partition.
func (h *Hub) Heal() {
	h.change(func() { clear(h.apart) })
}

// Freeze stops all that a node sends and receives, as when a laptop's lid is closed. Its own
// goroutines go on, but nobody can tell.
func (h *Hub) Freeze(id community.NodeID) {
	h.change(func() { h.frozen[id] = true })
}

// Wake undoes Freeze.
func (h *Hub) Wake(id community.NodeID) {
	h.change(func() { delete(h.frozen, id) })
}

// OnlyDialsOut lets nobody reach the nodes of that name, now or later, who is not reached by them first, as a
// NAT or a firewall would.
func (h *Hub) OnlyDialsOut(name string) {
	h.change(func() { h.shut[name] = true })
}

// lets reports whether a node may be reached by another, and when that may change; gone says that it is not
// on the LAN any more.
func (h *Hub) lets(to, from *Node) (ok, gone bool, changed <-chan struct{}) {
	h.mu.Lock()
	shut, gone, changed := h.shut[to.name], h.nodes[to.id] != to || to.dead(), h.changed
	h.mu.Unlock()
	return !shut || to.reaches(from.id), gone, changed
}

// reached wakes those who may be let in now that a node has reached another, if anybody only dials out.
func (h *Hub) reached() {
	h.mu.Lock()
	shut := len(h.shut) > 0
	h.mu.Unlock()
	if shut {
		h.change(func() {})
	}
}

// change changes the LAN and wakes whoever waits for that.
func (h *Hub) change(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	close(h.changed)
	h.changed = make(chan struct{})
}

// open tells whether something can get from a to b now, and when that may change.
func (h *Hub) open(a, b community.NodeID) (bool, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.apart[a] == h.apart[b] && !h.frozen[a] && !h.frozen[b], h.changed
}

// others are the nodes that live, without the given one, and when that may change.
func (h *Hub) others(self *Node) ([]*Node, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*Node
	for _, n := range h.nodes {
		if n != self && !n.dead() {
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, b *Node) int { return cmp.Compare(a.id, b.id) })
	return all, h.changed
}

// What is sent. Calls and streams draw from sources of their own, so that a heartbeat more or less
// does not change the fate of a call.
const (
	calls   = "calls"
	streams = "streams"
)

// draw decides what happens to one thing sent from a to b.
func (h *Hub) draw(a, b community.NodeID, what string) (delay time.Duration, lost bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	source := fmt.Sprint(what, " from ", a, " to ", b)
	r := h.chance[source]
	if r == nil {
		sum := fnv.New64a()
		sum.Write([]byte(source))
		r = rand.New(rand.NewPCG(h.cfg.Seed, sum.Sum64()))
		h.chance[source] = r
	}
	delay = h.cfg.Delay
	if h.cfg.Jitter > 0 {
		delay += time.Duration(r.Int64N(int64(h.cfg.Jitter) + 1))
	}
	return delay, r.Float64() < h.cfg.Loss
}
