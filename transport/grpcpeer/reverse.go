package grpcpeer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"

	"symbio/community"
	"symbio/security/identity"
)

// A reversed connection is how a node is called that can only dial out: it opens a second connection to a
// node that it is linked with, both prove who they are as always, and then the roles change: who accepted
// the connection calls, and who opened it serves. The one that cannot call says so on Watch.

const (
	// reverseGrace is how long the other side may take to dial: it knows where this one may be a moment
	// after the connection, and a connection that it made itself needs nobody's firewall to keep it open.
	reverseGrace = 700 * time.Millisecond
	// reversePause is how long to wait after the first offer, and twice as long after each further one, up
	// to maxReversePause, until there was none for a minute.
	reversePause    = 500 * time.Millisecond
	maxReversePause = 15 * time.Second
	reverseMemory   = time.Minute
)

var errLinked = errors.New("this node has a connection to that one already")

// takeReversed makes a connection that its other end opened in order to be called this node's link to
// that one. An error leaves the connection to the caller.
func (n *Network) takeReversed(conn net.Conn, below *batch, state tls.ConnectionState) error {
	who, err := identity.PeerOf(state)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.search.Err() != nil || n.host == nil:
		return errStopping
	case who.ID == n.self:
		return errSelf
	case n.callable(who.ID):
		return errLinked
	}
	n.reversing[who.ID] = true
	n.pursuits.Go(func() { n.reverse(who.ID, newWire(conn, below), state) })
	return nil
}

// callable reports whether there is a link to the node, or one is being made of what it opened. The
// caller holds n.mu.
func (n *Network) callable(id community.NodeID) bool {
	_, linked := n.links.Load(id)
	return linked || n.reversing[id]
}

// reverse greets the node over the connection that it opened, and keeps the link until it ends.
func (n *Network) reverse(id community.NodeID, w *wire, state tls.ConnectionState) {
	ctx, cancel := context.WithTimeout(n.search, handshakeTimeout)
	l, err := n.meet(ctx, w, state, netip.AddrPort{}, n.cfg.Identity.NotAfter())
	cancel()
	k := &candidate{claimed: id, kick: make(chan struct{}, 1)} // of nobody's hint; nothing is dialled for it
	var other *link
	if err == nil {
		other = n.adopt(k, l)
	}
	n.mu.Lock()
	delete(n.reversing, id)
	n.mu.Unlock()
	switch {
	case err != nil:
		w.Close()
		if n.search.Err() == nil {
			n.turnedAway(w.RemoteAddr(), fmt.Errorf("call node %s back: %w", id, n.cfg.Identity.Explain(err)))
		}
	case other != nil: // it was dialled meanwhile
		l.close()
	default:
		n.hold(k, l)
	}
}

// offers opens a connection for the node of l to call this one over, as often as that one says that it
// has none, until ctx ends.
func (n *Network) offers(ctx context.Context, l *link) {
	pause := reversePause
	var last time.Time
	for {
		select {
		case <-l.unlinked:
		case <-ctx.Done():
			return
		}
		if time.Since(last) > reverseMemory {
			pause = reversePause
		}
		last = time.Now()
		if err := n.offer(ctx, l); err != nil && ctx.Err() == nil {
			n.cfg.Logger.Debug("reversed connection not made", "node", l.peer.ID, "addr", l.peer.Addr, "err", err)
		}
		rest := time.NewTimer(jitter(pause))
		select {
		case <-rest.C:
		case <-ctx.Done():
			rest.Stop()
			return
		}
		pause = min(2*pause, maxReversePause)
		select {
		case <-l.unlinked: // said before the offer could have been taken
		default:
		}
	}
}

// offer opens one. An earlier one is cut: the node has just said that it does not have it.
func (n *Network) offer(ctx context.Context, l *link) error {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	raw, err := n.cfg.Dial(ctx, l.addr)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", l.addr, err)
	}
	below := newBatch(raw)
	conn := tls.Client(below, n.cfg.Identity.ReverseClientTLS(l.peer.ID))
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		return fmt.Errorf("greet %s: %w", l.addr, n.cfg.Identity.Explain(err))
	}
	return n.callbacks.serve(ctx, l.peer.ID, conn, below)
}

// callbacks is the listener of the connections that this node opened in order to be called over them.
type callbacks struct {
	addr    net.Addr
	arrived chan net.Conn
	shut    chan struct{}
	close   func()

	mu sync.Mutex
	of map[community.NodeID]*offered // the newest of each node; guarded by mu
}

func newCallbacks(addr net.Addr) *callbacks {
	c := &callbacks{addr: addr, arrived: make(chan net.Conn), shut: make(chan struct{}), of: map[community.NodeID]*offered{}}
	c.close = sync.OnceFunc(func() { close(c.shut) })
	return c
}

// serve hands a connection to the server, and cuts the one that the node had before.
func (c *callbacks) serve(ctx context.Context, id community.NodeID, conn *tls.Conn, below *batch) error {
	o := &offered{Conn: conn, below: below}
	o.leave = func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.of[id] == o {
			delete(c.of, id)
		}
	}
	c.mu.Lock()
	old := c.of[id]
	c.of[id] = o
	c.mu.Unlock()
	if old != nil {
		old.NetConn().Close()
	}
	select {
	case c.arrived <- o:
		return nil
	case <-ctx.Done():
	case <-c.shut:
	}
	o.NetConn().Close()
	o.leave()
	return net.ErrClosed
}

// Accept, Close and Addr make callbacks a net.Listener.
func (c *callbacks) Accept() (net.Conn, error) {
	select {
	case o := <-c.arrived:
		return o, nil
	case <-c.shut:
		return nil, net.ErrClosed
	}
}

func (c *callbacks) Close() error   { c.close(); return nil }
func (c *callbacks) Addr() net.Addr { return c.addr }

// offered is a connection that this node opened, whose handshake is done, and over which it serves.
type offered struct {
	*tls.Conn
	below *batch
	leave func()
}

func (o *offered) Close() error {
	defer o.leave()
	return o.Conn.Close()
}

// info is what the server would have learned from a handshake of its own.
func (o *offered) info() credentials.TLSInfo {
	return credentials.TLSInfo{State: o.ConnectionState(), CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}
}

// turn hands over a connection on which this node is to call. Its error ends what gRPC does with the
// connection here; that a node offers one that is not needed is nobody's fault.
func (d *doorkeeper) turn(conn net.Conn, below *batch, state tls.ConnectionState) error {
	if err := d.reversed(conn, below, state); err != nil {
		conn.Close()
		return err
	}
	return credentials.ErrConnDispatched
}

// portAt is the port at which this node can be dialled by who sees its connections come from that
// address; 0 = it does not listen there.
func (n *Network) portAt(local net.Addr) uint32 {
	own, ok := n.Addr().(*net.TCPAddr)
	here, ok2 := local.(*net.TCPAddr)
	if !ok || !ok2 {
		return 0
	}
	at, from := own.AddrPort().Addr().Unmap(), here.AddrPort().Addr().Unmap()
	if at == from || at.IsUnspecified() && (at.Is6() || from.Is4()) {
		return uint32(own.Port)
	}
	return 0
}
