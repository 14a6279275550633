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

// listen opens the listener of cfg, and checks it and the one for WebSockets.
func listen(cfg Config) (net.Listener, error) {
	l := cfg.Listener
	if l == nil {
		var err error
		if l, err = net.Listen("tcp", cfg.Listen); err != nil {
			return nil, fmt.Errorf("listen for other nodes on %s: %w", cfg.Listen, err)
		}
	}
	err := checkListener(l, cfg.Identity)
	if err == nil && cfg.WebSocket != nil {
		err = checkListener(cfg.WebSocket, cfg.Identity)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// checkListener returns an error for an address that other machines can reach when the node has no cluster identity: a
// local identity cannot tell members from strangers, so it must stay on loopback.
func checkListener(l net.Listener, id *identity.Identity) error {
	tcp, ok := l.Addr().(*net.TCPAddr)
	if ok && !tcp.IP.IsLoopback() && id.Authority() == identity.Local {
		return fmt.Errorf("listen for other nodes on %s: other machines reach that address, and this node has no cluster identity "+
			"to tell friends from strangers there; listen on 127.0.0.1:%d, or make or join a cluster first (symbio cluster init, symbio cluster join)", l.Addr(), tcp.Port)
	}
	return nil
}

// limitListener accepts at most a fixed number of connections at a time, verified or not. Further
// ones are told so with a TLS alert and closed. Closing an accepted connection frees its slot.
type limitListener struct {
	net.Listener
	// slots has one element per open connection.
	slots     chan struct{}
	onRefused func(addr net.Addr, why error)
	// rejections counts the goroutines that are sending alerts; Run waits for them.
	rejections *sync.WaitGroup
	// rejectSlots bounds those goroutines: a flood of connections must not become a flood of
	// goroutines.
	rejectSlots chan struct{}
}

// newLimitListener wraps l. onRefused is called for each connection over max, from the goroutine of
// Accept, and must not block.
func newLimitListener(l net.Listener, most int, refused func(net.Addr, error)) *limitListener {
	return &limitListener{Listener: l, slots: make(chan struct{}, most), onRefused: refused, rejections: new(sync.WaitGroup), rejectSlots: make(chan struct{}, 8)}
}

// sharing wraps a second listener, whose connections count against the same limits.
func (d *limitListener) sharing(l net.Listener) *limitListener {
	other := *d
	other.Listener = l
	return &other
}

// Accept returns the next connection for which there is a slot. Connections without one are
// rejected, and do not end the loop.
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

// reject closes c, in the background after an alert, or at once when many alerts are being sent.
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

// slotConn is an accepted connection that occupies a slot in a bounded table until it is closed.
type slotConn struct {
	net.Conn
	release  func()
	validity *validity  // nil until the node is verified
	raw      *batchConn // under Conn, if it is TLS
}

// Write joins the TLS records of p into one system call, where that is possible.
func (g *slotConn) Write(p []byte) (int, error) {
	if g.raw == nil {
		return g.Conn.Write(p)
	}
	return g.raw.writeTLS(g.Conn, p)
}

// Close closes the connection and frees the slot, also when closing fails.
func (g *slotConn) Close() error {
	defer g.release()
	return g.Conn.Close()
}

// abort closes the TCP connection first. A TLS close would wait up to 5 s for a node that does not
// read.
func (g *slotConn) abort() {
	if t, ok := g.Conn.(interface{ NetConn() net.Conn }); ok {
		t.NetConn().Close()
	}
	g.Close()
}

// connTable has the incoming connections of each verified node. It bounds their number per node and
// finds the ones to close when a node is removed or its certificate ends. It is safe for concurrent
// use.
type connTable struct {
	max    int
	mu     sync.Mutex
	byNode map[identity.NodeID][]*slotConn // guarded by mu
}

// admit adds a connection of node id and returns it as a slotConn, or false when the node has max
// connections already. Closing the slotConn removes it from the table.
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

// silence returns how long no byte has come from the node, over link or over a connection of that
// node that was open when link last received something. Both share a network path, on which bulk
// data of one delays the heartbeats of the other. A connection that was opened later proves nothing
// about link's path, so it is left out.
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

// all returns the connections for which want returns true. want runs under the lock and must be
// quick.
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

// caller is the verified other end of an incoming connection. All requests on the connection share
// it. Identity fields are from the certificate; those that the node reports about itself are marked
// and prove nothing.
type caller struct {
	identity.Peer
	addr string
	name atomic.Pointer[string] // as reported in Describe; not verified
	// watches are the Watch streams open over the connection: each costs a subscription.
	watches atomic.Int32
	// run identifies the process of the node, as reported in Describe; duplicates compares it.
	run      atomic.Pointer[pb.Run]
	validity *validity
	// recipient is for an authority that the caller is about to send.
	recipient atomic.Pointer[identity.Recipient]
	// duplicate is the mark of another process with the same key, to be sent on Watch; nil = none.
	duplicate atomic.Pointer[pb.Run]
	port      atomic.Uint32 // where it can be dialed, as reported in Describe; 0 = nowhere
	calls     calls.Connection
}
