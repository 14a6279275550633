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

// door is a listener that lets in no more than a number of connections; others are closed at once.
type door struct {
	net.Listener
	room    chan struct{}
	refused func(addr net.Addr, why error)
	excuses sync.WaitGroup // connections that are told that there is no room
	telling chan struct{}  // how many at once
}

func newDoor(l net.Listener, most int, refused func(net.Addr, error)) *door {
	return &door{Listener: l, room: make(chan struct{}, most), refused: refused, telling: make(chan struct{}, 8)}
}

func (d *door) Accept() (net.Conn, error) {
	for {
		c, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		limitUnsent(c)
		select {
		case d.room <- struct{}{}:
			return &guest{Conn: c, leave: sync.OnceFunc(func() { <-d.room })}, nil
		default:
			d.refused(c.RemoteAddr(), errFull)
			d.turnAway(c)
		}
	}
}

// turnAway closes a connection, and tells it why unless many are being told.
func (d *door) turnAway(c net.Conn) {
	select {
	case d.telling <- struct{}{}:
		d.excuses.Go(func() {
			defer func() { <-d.telling }()
			sorry(c)
			c.Close()
		})
	default:
		c.Close()
	}
}

// guest is a connection that makes room when it closes.
type guest struct {
	net.Conn
	leave func()
	term  *validity // nil until it is proven who it is
	below *batch    // under Conn, if it is TLS
}

func (g *guest) Write(p []byte) (int, error) {
	if g.below == nil {
		return g.Conn.Write(p)
	}
	return g.below.together(g.Conn, p)
}

func (g *guest) Close() error {
	defer g.leave()
	return g.Conn.Close()
}

// cut closes the connection without the goodbye of TLS, which waits up to 5 s for a node that does not
// read.
func (g *guest) cut() {
	if t, ok := g.Conn.(interface{ NetConn() net.Conn }); ok {
		t.NetConn().Close()
	}
	g.Close()
}

// crowd knows which connections each identity has.
type crowd struct {
	max int
	mu  sync.Mutex
	of  map[identity.NodeID][]*guest // guarded by mu
}

// admit takes one more connection of id, unless it has enough. Closing what it returns makes room.
func (c *crowd) admit(id identity.NodeID, conn net.Conn, below *batch) (*guest, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.of[id]) >= c.max {
		return nil, false
	}
	g := &guest{Conn: conn, below: below, term: new(validity)}
	g.leave = sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.of[id] = slices.DeleteFunc(c.of[id], func(o *guest) bool { return o == g })
		if len(c.of[id]) == 0 {
			delete(c.of, id)
		}
	})
	c.of[id] = append(c.of[id], g)
	return g, true
}

// silence is how long no byte came from the node, over link or over a connection that it had open here
// when link was heard last: they share a network path, on which the bulk of one delays the heartbeats of
// the other. A newer connection says nothing about link's path.
func (c *crowd) silence(id identity.NodeID, link *batch) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	own := link.silence()
	least := own
	for _, g := range c.of[id] {
		if time.Since(g.below.opened) > own {
			least = min(least, g.below.silence())
		}
	}
	return least
}

// all returns the connections that satisfy want.
func (c *crowd) all(want func(identity.NodeID, *guest) bool) (out []*guest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, all := range c.of {
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
	watches atomic.Int32
	run     atomic.Pointer[pb.Run] // as it said in Describe
	term    *validity
	// recipient is for an authority that the caller is about to send.
	recipient atomic.Pointer[identity.Recipient]
	twin      atomic.Pointer[pb.Run] // to be told of
	port      atomic.Uint32          // at which it can be dialled, as it said in Describe; 0 = none
	calls     calls.Connection
}
