package grpcpeer

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
	"symbio/transport/grpcpeer/internal/calls"
)

// listen opens the listener of cfg and refuses one that other machines reach unless a cluster
// vouches for this node.
func listen(cfg Config) (net.Listener, error) {
	l := cfg.Listener
	if l == nil {
		var err error
		if l, err = net.Listen("tcp", cfg.Listen); err != nil {
			return nil, fmt.Errorf("listen for other nodes on %s: %w", cfg.Listen, err)
		}
	}
	tcp, ok := l.Addr().(*net.TCPAddr)
	if ok && !tcp.IP.IsLoopback() && cfg.Identity.Authority() == identity.Local {
		l.Close()
		return nil, fmt.Errorf("listen for other nodes on %s: other machines reach that address, and this node has no cluster identity "+
			"to tell friends from strangers there; listen on 127.0.0.1:%d, or make or join a cluster first (symbio cluster init, symbio join)", l.Addr(), tcp.Port)
	}
	return l, nil
}

// limitListener is a listener that lets in no more than a number of connections; others are closed at once.
type limitListener struct {
	net.Listener
	slots       chan struct{}
	onRefused   func(addr net.Addr, why error)
	rejections  sync.WaitGroup // connections that are told that there is no room
	rejectSlots chan struct{}  // how many at once
}

func newLimitListener(l net.Listener, most int, refused func(net.Addr, error)) *limitListener {
	return &limitListener{Listener: l, slots: make(chan struct{}, most), onRefused: refused, rejectSlots: make(chan struct{}, 8)}
}

func (d *limitListener) Accept() (net.Conn, error) {
	for {
		c, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		limitUnsent(c)
		select {
		case d.slots <- struct{}{}:
			return &slotConn{Conn: c, release: sync.OnceFunc(func() { <-d.slots })}, nil
		default:
			d.onRefused(c.RemoteAddr(), errListenerFull)
			d.reject(c)
		}
	}
}

// reject closes a connection, and tells it why unless many are being told.
func (d *limitListener) reject(c net.Conn) {
	select {
	case d.rejectSlots <- struct{}{}:
		d.rejections.Go(func() {
			defer func() { <-d.rejectSlots }()
			sendNoRoom(c)
			c.Close()
		})
	default:
		c.Close()
	}
}

// slotConn is a connection that makes room when it closes.
type slotConn struct {
	net.Conn
	release  func()
	validity *validity  // nil until it is proven who it is
	raw      *batchConn // under Conn, if it is TLS
}

func (g *slotConn) Write(p []byte) (int, error) {
	if g.raw == nil {
		return g.Conn.Write(p)
	}
	return g.raw.writeTLS(g.Conn, p)
}

func (g *slotConn) Close() error {
	defer g.release()
	return g.Conn.Close()
}

// abort closes the connection without the goodbye of TLS, which waits up to 5 s for a node that does not
// read.
func (g *slotConn) abort() {
	if t, ok := g.Conn.(interface{ NetConn() net.Conn }); ok {
		t.NetConn().Close()
	}
	g.Close()
}

// connTable knows which connections each identity has.
type connTable struct {
	max    int
	mu     sync.Mutex
	byNode map[identity.NodeID][]*slotConn // guarded by mu
}

// admit takes one more connection of id, unless it has enough. Closing what it returns makes room.
func (c *connTable) admit(id identity.NodeID, conn net.Conn, below *batchConn) (*slotConn, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.byNode[id]) >= c.max {
		return nil, false
	}
	g := &slotConn{Conn: conn, raw: below, validity: new(validity)}
	g.release = sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.byNode[id] = slices.DeleteFunc(c.byNode[id], func(o *slotConn) bool { return o == g })
		if len(c.byNode[id]) == 0 {
			delete(c.byNode, id)
		}
	})
	c.byNode[id] = append(c.byNode[id], g)
	return g, true
}

// silence is how long no byte came from the node, over link or over a connection that it had open here
// when link was heard last: they share a network path, on which the bulk of one delays the heartbeats of
// the other. A newer connection says nothing about link's path.
func (c *connTable) silence(id identity.NodeID, link *batchConn) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	own := link.silence()
	least := own
	for _, g := range c.byNode[id] {
		if time.Since(g.raw.opened) > own {
			least = min(least, g.raw.silence())
		}
	}
	return least
}

// all returns the connections that satisfy want.
func (c *connTable) all(want func(identity.NodeID, *slotConn) bool) (out []*slotConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, all := range c.byNode {
		for _, g := range all {
			if want(id, g) {
				out = append(out, g)
			}
		}
	}
	return out
}

// caller is the proven other end of a connection that came in.
type caller struct {
	identity.Peer
	addr string
	name atomic.Pointer[string] // as it said in Describe; proves nothing
	// watches are the Watch streams open over the connection: each costs a subscription.
	watches  atomic.Int32
	run      atomic.Pointer[pb.Run] // as it said in Describe
	validity *validity
	// recipient is for an authority that the caller is about to send.
	recipient atomic.Pointer[identity.Recipient]
	duplicate atomic.Pointer[pb.Run] // to be told of
	port      atomic.Uint32          // at which it can be dialled, as it said in Describe; 0 = none
	calls     calls.Connection
}
