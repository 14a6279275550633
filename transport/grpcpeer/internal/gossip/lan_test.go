package gossip_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
	"symbio/transport/grpcpeer/grpcpeertest"
	"symbio/transport/grpcpeer/internal/gossip"
)

const (
	// packetDelay is how long a packet is under way.
	packetDelay = time.Millisecond
	// resendPause is how long a connection takes longer when one of its first packets is lost.
	resendPause = time.Second
	// maxWaiting is how many packets wait for their reader, as in a socket.
	maxWaiting = 1024
)

// lan is a network in memory for nodes of one authority that have gossip alone: packets, and streams of real mutual TLS.
type lan struct {
	t         testing.TB
	dir       string
	authority *identity.Authority
	loss      float64 // part of the packets that is lost
	began     time.Time
	// lastVerdict is how long after began a living node was last called dead.
	lastVerdict atomic.Int64
	running     sync.WaitGroup

	mu    sync.RWMutex
	nodes map[netip.AddrPort]*node   // guarded by mu
	ids   map[community.NodeID]*node // guarded by mu
}

func newLAN(t testing.TB, loss float64) *lan {
	t.Helper()
	dir := t.TempDir()
	a, err := identity.OpenLocalAuthority(filepath.Join(dir, "authority"))
	if err != nil {
		t.Fatal(err)
	}
	return &lan{t: t, dir: dir, began: time.Now(), authority: a, loss: loss, nodes: map[netip.AddrPort]*node{}, ids: map[community.NodeID]*node{}}
}

// identity returns a certificate for a new node.
func (l *lan) identity() *identity.Identity {
	l.t.Helper()
	l.mu.RLock()
	k, err := identity.LoadOrCreateKey(filepath.Join(l.dir, strconv.Itoa(len(l.nodes))+".pem"))
	l.mu.RUnlock()
	if err != nil {
		l.t.Fatal(err)
	}
	id, err := l.authority.Issue(k)
	if err != nil {
		l.t.Fatal(err)
	}
	return id
}

// node is one node on a lan, and what its Group has reported.
type node struct {
	lan     *lan
	id      *identity.Identity
	at      netip.AddrPort
	group   *gossip.Group
	server  *tls.Config
	packets chan packet
	changed chan struct{}
	done    chan struct{} // closed when packets are read no more
	stop    context.CancelFunc
	killed  atomic.Bool
	hostile *hostile // nil = it is honest

	sent                 atomic.Int64 // packets
	bytes                atomic.Int64 // of packets and streams that this node sent
	streams              atomic.Int64 // that this node opened
	suspicions, verdicts atomic.Int64

	mu      sync.Mutex
	catalog *pb.Catalog                       // guarded by mu
	members map[community.NodeID]*gossip.Node // guarded by mu
	lost    map[community.NodeID]bool         // which were members; guarded by mu
	known   atomic.Int64                      // len(members)
}

// add makes a node that does nothing yet. change may be nil.
func (l *lan) add(change func(*gossip.Config)) *node {
	l.t.Helper()
	id := l.identity()
	l.mu.Lock()
	defer l.mu.Unlock()
	i := len(l.nodes)
	n := &node{lan: l, id: id, at: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 7946),
		server: id.ProtocolServerTLS(identity.GossipProtocol), packets: make(chan packet, maxWaiting), changed: make(chan struct{}, 1),
		done: make(chan struct{}), members: map[community.NodeID]*gossip.Node{}, lost: map[community.NodeID]bool{}, catalog: &pb.Catalog{}}
	cfg := gossip.Config{
		Identity: id, Instance: "process1", Started: time.Now(), Packets: &packetConn{node: n, end: sync.OnceFunc(func() { close(n.done) })},
		Port: n.at.Port(), Dial: n.dial, Describe: n.describe, Changed: n.changed, Seen: n.seen, Gone: n.gone,
		Revocations: func(community.NodeID, ...*pb.Revocations) {}, Logger: slog.New(countingLog{slog.DiscardHandler, n}),
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	if n.group, err = gossip.New(cfg); err != nil {
		l.t.Fatal(err)
	}
	l.nodes[n.at], l.ids[id.ID()] = n, n
	return n
}

// run runs the node until stop or kill.
func (n *node) run() {
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	n.lan.running.Go(func() {
		if err := n.group.Run(ctx); err != nil {
			n.lan.t.Error(err)
		}
	})
}

// kill ends the node as a crash does: nothing gets from it or to it any more.
func (n *node) kill() {
	n.killed.Store(true)
	n.stop()
}

// end ends all nodes.
func (l *lan) end() {
	l.mu.RLock()
	for _, n := range l.nodes {
		n.stop()
	}
	l.mu.RUnlock()
	l.running.Wait()
	time.Sleep(time.Minute) // memberlist's last probes end by themselves
}

func (l *lan) find(at netip.AddrPort) *node {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if n := l.nodes[at]; n != nil && !n.killed.Load() {
		return n
	}
	return nil
}

// byID returns the node with an id; nil = there is none.
func (l *lan) byID(id community.NodeID) *node {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.ids[id]
}

func (n *node) describe() *pb.Statement {
	n.mu.Lock()
	defer n.mu.Unlock()
	return &pb.Statement{Name: "node", Protocol: &pb.Version{Major: 1}, Catalog: n.catalog, MaxMessage: 1 << 20}
}

// offers changes what the node offers.
func (n *node) offers(capabilities ...string) {
	n.mu.Lock()
	n.catalog = &pb.Catalog{Members: []*pb.Member{{Id: string(n.id.ID()), Provides: capabilities}}}
	n.mu.Unlock()
	n.changed <- struct{}{}
}

// seen and gone do as package grpcpeer does: a node that is called dead is dialed before that is believed, and one that was lost
// before it is a member again.
func (n *node) seen(o *gossip.Node) {
	p := n.lan.byID(o.ID)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lost[o.ID] && (p == nil || p.killed.Load()) {
		return
	}
	n.members[o.ID] = o
	n.known.Store(int64(len(n.members)))
}

func (n *node) gone(id community.NodeID, left bool, _ error) {
	o := n.lan.byID(id)
	n.mu.Lock()
	defer n.mu.Unlock()
	if !left && o != nil && !o.killed.Load() { // it answers
		n.lan.lastVerdict.Store(int64(time.Since(n.lan.began)))
		n.verdicts.Add(1)
		return
	}
	delete(n.members, id)
	n.lost[id] = true
	n.known.Store(int64(len(n.members)))
}

// member returns what the node knows of another one; nil = it is no member.
func (n *node) member(id community.NodeID) *gossip.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.members[id]
}

// meet makes n known to o, as a link does that n has opened to o.
func (n *node) meet(o *node) {
	n.lan.running.Go(func() { _ = o.group.Meet(n.id.ID(), n.at) }) // it hears of the node otherwise
}

// dial opens a connection to another node.
func (n *node) dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	n.streams.Add(1)
	wait := 2 * packetDelay
	for range 4 { // both packets of TCP's handshake, and both flights of TLS
		if rand.Float64() < n.lan.loss {
			wait += resendPause
		}
	}
	o := n.lan.find(addr)
	if o == nil || n.killed.Load() {
		wait = time.Hour // no answer
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	near, far := grpcpeertest.Pipe(net.TCPAddrFromAddrPort(n.at), net.TCPAddrFromAddrPort(addr))
	n.lan.running.Go(func() { o.serve(far) })
	return &countedConn{near, &n.bytes}, nil
}

// serve serves a connection as the listener of a node does.
func (n *node) serve(raw net.Conn) {
	conn := tls.Server(&countedConn{raw, &n.bytes}, n.server)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		return
	}
	peer, err := identity.PeerOf(conn.ConnectionState())
	if err != nil {
		raw.Close()
		return
	}
	if n.hostile != nil {
		n.hostile.serveStream(conn)
		return
	}
	_ = n.group.Accept(conn, peer) // closes conn
}

// countedConn counts what is sent.
type countedConn struct {
	net.Conn
	bytes *atomic.Int64
}

func (c *countedConn) Write(b []byte) (int, error) {
	c.bytes.Add(int64(len(b)))
	return c.Conn.Write(b)
}

// packet is one that has arrived.
type packet struct {
	text []byte
	from netip.AddrPort
}

// packetConn is a node's socket for packets.
type packetConn struct {
	node *node
	end  func()
}

func (c *packetConn) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case p := <-c.node.packets:
		return copy(b, p.text), net.UDPAddrFromAddrPort(p.from), nil
	case <-c.node.done:
		return 0, nil, net.ErrClosed
	}
}

// WriteTo returns no error for what is lost.
func (c *packetConn) WriteTo(b []byte, to net.Addr) (int, error) {
	n := c.node
	n.sent.Add(1)
	n.bytes.Add(int64(len(b)))
	o := n.lan.find(to.(*net.UDPAddr).AddrPort())
	if o == nil || n.killed.Load() || rand.Float64() < n.lan.loss {
		return len(b), nil
	}
	p := packet{append([]byte(nil), b...), n.at}
	time.AfterFunc(packetDelay, func() {
		select {
		case o.packets <- p:
		default:
		}
	})
	return len(b), nil
}

func (c *packetConn) Close() error                     { c.end(); return nil }
func (c *packetConn) LocalAddr() net.Addr              { return net.UDPAddrFromAddrPort(c.node.at) }
func (c *packetConn) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (c *packetConn) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (c *packetConn) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

// countingLog counts the suspicions that memberlist logs.
type countingLog struct {
	slog.Handler
	node *node
}

func (countingLog) Enabled(context.Context, slog.Level) bool { return true }

func (h countingLog) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "memberlist: Suspect ") {
		h.node.suspicions.Add(1)
	}
	return nil
}
