package grpcpeertest

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"symbio/community"
	"symbio/discovery"
	"symbio/security/identity"
	"symbio/transport/grpcpeer"
)

// Config sets up a LAN. The zero value is a LAN on which everything arrives at once.
type Config struct {
	// Delay is how long bytes take from one node to another, and Jitter how much longer they may
	// take at random. The bytes of one connection stay in order.
	Delay, Jitter time.Duration
	// Gossip gives each node packets. Loss is the part of them that is lost, 0 to 1.
	Gossip bool
	Loss   float64
}

// LAN is a network in memory: nodes with certificates of one authority, and connections between them
// that a test can delay, cut and break. Its methods may be called concurrently, also while nodes run.
type LAN struct {
	t         testing.TB
	cfg       Config
	dir       string
	authority *identity.Authority
	// ended is closed at the end of the test; all connections break then.
	ended   chan struct{}
	running sync.WaitGroup

	mu    sync.Mutex
	nodes []*Node // guarded by mu
	// side is the side of the partition that a node is on; absent = 0, the main one; guarded by mu.
	side map[community.NodeID]int
	// sides counts the calls of Partition, so that each makes a side of its own; guarded by mu.
	sides int
	// frozen are the nodes that Freeze has stopped; guarded by mu.
	frozen map[community.NodeID]bool
	// changed is closed and replaced when bytes may get through that did not before, or the reverse;
	// guarded by mu.
	changed chan struct{}
}

// NewLAN returns a LAN without nodes. It ends with the test: the networks of its nodes must have
// ended by then, or must be ended by a cleanup function that is registered later than this call.
func NewLAN(t testing.TB, cfg Config) *LAN {
	t.Helper()
	dir := t.TempDir()
	a, err := identity.OpenLocalAuthority(filepath.Join(dir, "authority"))
	if err != nil {
		t.Fatal(err)
	}
	l := &LAN{t: t, cfg: cfg, dir: dir, authority: a, ended: make(chan struct{}),
		side: map[community.NodeID]int{}, frozen: map[community.NodeID]bool{}, changed: make(chan struct{})}
	t.Cleanup(func() {
		close(l.ended)
		l.running.Wait()
	})
	return l
}

// Dir returns the directory of the LAN: the authority is in authority, and the key of the node
// called NAME in NAME/key.pem.
func (l *LAN) Dir() string { return l.dir }

// Node is one node on a LAN. A node that starts again after its end is a new Node with the same ID.
type Node struct {
	ID community.NodeID
	// Addr is where other nodes dial this one.
	Addr netip.AddrPort
	// Listener accepts the connections that other nodes open; a test may dial it, too.
	Listener *Listener
	// Network is nil if the node was made by Listen.
	Network *grpcpeer.Network

	lan     *LAN
	packets *packetConn // nil = none
	// killed is closed by Kill, under the LAN's lock.
	killed chan struct{}
	// dialOnly refuses connections to the node; guarded by lan.mu.
	dialOnly bool
}

// Join adds the node called name, and tells it and all other nodes of each other. The caller gives
// Network to a community, which runs it. A node that has ended or was killed may join again: it is
// the same node, with the same id.
func (l *LAN) Join(name string) *Node {
	l.t.Helper()
	n := l.Add(name, l.Identity(name))
	l.Introduce(n)
	return n
}

// Add adds a node that no other node has heard of yet. tune may change all of its configuration but
// Identity.
func (l *LAN) Add(name string, id *identity.Identity, tune ...func(*grpcpeer.Config)) *Node {
	l.t.Helper()
	n := l.Listen(id.ID())
	cfg := grpcpeer.Config{Identity: id, Name: name, Listener: n.Listener, Dial: n.Dial}
	if n.packets != nil {
		cfg.Packets = n.packets
	}
	for _, f := range tune {
		f(&cfg)
	}
	network, err := grpcpeer.New(cfg)
	if err != nil {
		l.t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n.Network = network
	return n
}

// Listen adds a node without a Network, for a test that serves Listener itself.
func (l *LAN) Listen(id community.NodeID) *Node {
	l.mu.Lock()
	defer l.mu.Unlock()
	addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(1000+len(l.nodes)))
	n := &Node{ID: id, Addr: addr, Listener: NewListener(net.TCPAddrFromAddrPort(addr)), lan: l, killed: make(chan struct{})}
	if l.cfg.Gossip {
		n.packets = newPacketConn(n)
	}
	l.nodes = append(l.nodes, n)
	return n
}

// Introduce tells a node and all other nodes of each other, as discovery does.
func (l *LAN) Introduce(n *Node) {
	l.mu.Lock()
	others := slices.Clone(l.nodes)
	l.mu.Unlock()
	for _, o := range others {
		if o.ID != n.ID && o.Network != nil && !o.hasEnded() {
			o.Network.AddHint(n.Hint())
			n.Network.AddHint(o.Hint())
		}
	}
}

// Hint returns what discovery would say of the node.
func (n *Node) Hint() discovery.Candidate {
	return discovery.Candidate{Key: string(n.ID), Node: string(n.ID), Addrs: []netip.AddrPort{n.Addr}}
}

// Kill ends a node as kill -9 would: its connections break at once, without a goodbye, and nothing
// reaches it or leaves it any more. Its Network runs until its context ends.
func (l *LAN) Kill(id community.NodeID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.nodes {
		if n.ID == id && !n.isKilled() {
			close(n.killed)
		}
	}
}

// Partition separates the given nodes from all others. Bytes between the two sides wait until Heal,
// or until the connection is given up.
func (l *LAN) Partition(ids ...community.NodeID) {
	l.change(func() {
		l.sides++
		for _, id := range ids {
			l.side[id] = l.sides
		}
	})
}

// Heal undoes every Partition.
func (l *LAN) Heal() { l.change(func() { clear(l.side) }) }

// Freeze stops everything that a node sends and receives, like a laptop whose lid is closed. The
// node's own goroutines keep running, which other nodes cannot notice.
func (l *LAN) Freeze(id community.NodeID) { l.change(func() { l.frozen[id] = true }) }

// Wake undoes Freeze.
func (l *LAN) Wake(id community.NodeID) { l.change(func() { delete(l.frozen, id) }) }

// change runs f, which changes what gets through, under the lock, and wakes everything that waits
// for that.
func (l *LAN) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	close(l.changed)
	l.changed = make(chan struct{})
}

// SetDialOnly makes connections to the node refused, as a NAT or a firewall does, or accepted again.
func (n *Node) SetDialOnly(dialOnly bool) {
	n.lan.mu.Lock()
	defer n.lan.mu.Unlock()
	n.dialOnly = dialOnly
}

func (n *Node) isDialOnly() bool {
	n.lan.mu.Lock()
	defer n.lan.mu.Unlock()
	return n.dialOnly
}

func (n *Node) isKilled() bool {
	select {
	case <-n.killed:
		return true
	default:
		return false
	}
}

// hasEnded reports whether the node was killed or its Network has ended.
func (n *Node) hasEnded() bool {
	select {
	case <-n.Listener.done:
		return true
	default:
		return n.isKilled()
	}
}

// awaitPath waits until bytes get from a to b. It returns false when stop is closed first.
func (l *LAN) awaitPath(a, b *Node, stop <-chan struct{}) bool {
	for {
		l.mu.Lock()
		open, changed := l.side[a.ID] == l.side[b.ID] && !l.frozen[a.ID] && !l.frozen[b.ID], l.changed
		l.mu.Unlock()
		if open {
			return true
		}
		select {
		case <-changed:
		case <-stop:
			return false
		}
	}
}

// find returns the node at an address, nil if there is none.
func (l *LAN) find(addr netip.AddrPort) *Node {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.nodes {
		if n.Addr == addr {
			return n
		}
	}
	return nil
}

// Dial opens a connection to the node at addr. It is the Dial of the node's grpcpeer.Config.
func (n *Node) Dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	to := n.lan.find(addr)
	if to != nil && !n.lan.awaitPath(n, to, ctx.Done()) {
		return nil, ctx.Err()
	}
	if to == nil || to.isKilled() || n.isKilled() || to.isDialOnly() {
		return nil, errors.New("connection refused")
	}
	from := net.TCPAddrFromAddrPort(netip.AddrPortFrom(n.Addr.Addr(), 9)) // any port but its own
	far, err := to.Listener.dialFrom(ctx, from)
	if err != nil {
		return nil, err
	}
	near, end := Pipe(from, to.Listener.addr)
	n.lan.connect(n, to, end, far)
	return near, nil
}
