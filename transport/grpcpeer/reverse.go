package grpcpeer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"

	"symbio/community"
	"symbio/security/identity"
)

// A node that can only dial out is called over a reversed connection: it opens a second connection to a node that
// it is linked with, both prove who they are as always, and then the roles change: the node that accepted the
// connection calls, and the node that opened it serves. The node that cannot call says so on Watch.

const (
	// reverseGrace is how long the other side may take to dial: it knows where this one may be a moment
	// after the connection, and its own dial is preferred: it needs no hole in a firewall.
	reverseGrace = 700 * time.Millisecond
	// reversePause is how long to wait after the first offer, and twice as long after each further one, up
	// to maxReversePause, until there was none for a minute.
	reversePause    = 500 * time.Millisecond
	maxReversePause = 15 * time.Second
	reverseMemory   = time.Minute
)

var errLinked = errors.New("this node has a connection to that one already")

// reverser makes links of reversed connections, and opens such connections for other nodes.
type reverser struct {
	*local
	dialer     *dialer
	candidates *candidates
	accepted   connListener // the connections that this node opened in order to be called over them

	mu      sync.Mutex
	offered map[community.NodeID]*offeredConn // the newest for each node; guarded by mu
}

// accept turns an incoming reversed connection into this node's link to its opener. It returns
// errSelf or errLinked when the connection is not needed, and errStopping while the network is not
// running; the caller then closes the connection. It does not block: a goroutine of candidates runs
// the link.
func (n *reverser) accept(conn net.Conn, below *batchConn, state tls.ConnectionState) error {
	remote, err := identity.PeerOf(state)
	switch {
	case err != nil:
		return err
	case remote.ID == n.self():
		return errSelf
	case !n.links.reserve(remote.ID):
		return errLinked
	}
	if err := n.candidates.goLoop(func() { n.reverse(remote.ID, newLinkConn(conn, below), state) }); err != nil {
		n.links.release(remote.ID)
		return err
	}
	return nil
}

// reverse calls Describe over the connection that node id opened, adds the link and runs it until
// it ends. When a dial connected the same node meanwhile, that link stays and this one is closed.
func (n *reverser) reverse(id community.NodeID, w *linkConn, state tls.ConnectionState) {
	ctx, cancel := context.WithTimeout(n.life.search, handshakeTimeout)
	l, err := n.dialer.establish(ctx, w, state, endpoint{}, n.cfg.Identity.NotAfter())
	cancel()
	k := &candidate{claimed: id, changed: make(chan struct{}, 1)} // of no hint; it is not dialed
	var other *link
	if err == nil {
		other = n.candidates.adopt(k, l)
	}
	n.links.release(id)
	switch {
	case err != nil:
		w.Close()
		if n.life.search.Err() == nil {
			n.refuseConnection(w.RemoteAddr(), fmt.Errorf("call node %s back: %w", id, n.cfg.Identity.Explain(err)))
		}
	case other != nil: // it was dialed meanwhile
		l.close()
	default:
		n.candidates.runLink(k, l)
	}
}

// offerLoop opens a reversed connection to the node of l each time that node reports that it cannot
// call this one, until ctx ends. The pause between offers doubles, since an offer that fails once
// (a full node, a wrong certificate) fails again.
func (n *reverser) offerLoop(ctx context.Context, l *link) {
	tries := 0
	var last time.Time
	for {
		select {
		case <-l.unlinked:
		case <-ctx.Done():
			return
		}
		if time.Since(last) > reverseMemory {
			tries = 0
		}
		tries++
		last = time.Now()
		if err := n.offer(ctx, l); err != nil && ctx.Err() == nil {
			n.cfg.Logger.Debug("reversed connection not made", "node", l.peer.ID, "addr", l.peer.Addr, "err", err)
		}
		rest := time.NewTimer(backOff(reversePause, maxReversePause, tries))
		select {
		case <-rest.C:
		case <-ctx.Done():
			rest.Stop()
			return
		}
		select {
		case <-l.unlinked: // sent before the offer could have been accepted
		default:
		}
	}
}

// offer opens one reversed connection and serves on it. It blocks for the dial and the handshake,
// at most handshakeTimeout.
func (n *reverser) offer(ctx context.Context, l *link) error {
	l.use.offered.Store(true)
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	raw, err := n.open(ctx, l.at)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", l.at, err)
	}
	below := newBatchConn(raw)
	conn := tls.Client(below, n.cfg.Identity.ProtocolClientTLS(identity.ReverseProtocol, l.peer.ID))
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		return fmt.Errorf("greet %s: %w", l.at, n.cfg.Identity.Explain(err))
	}
	return n.serve(ctx, l, conn, below)
}

// serve hands the connection to the gRPC server and closes the previous one to the same node, which
// that node has just said it lost.
func (n *reverser) serve(ctx context.Context, l *link, conn *tls.Conn, below *batchConn) error {
	id := l.peer.ID
	o := &offeredConn{Conn: conn, raw: below}
	o.release = func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.offered[id] == o {
			delete(n.offered, id)
			l.use.offered.Store(false) // unless that node says again that it cannot dial this one
		}
	}
	n.mu.Lock()
	old := n.offered[id]
	n.offered[id] = o
	n.mu.Unlock()
	if old != nil {
		old.NetConn().Close()
	}
	err := n.accepted.send(ctx, o)
	if err != nil {
		o.NetConn().Close()
		o.release()
	}
	return err
}

// offeredConn is a reversed connection that this node opened and serves on. The TLS handshake is done,
// with this node as the client.
type offeredConn struct {
	*tls.Conn
	raw     *batchConn
	release func()
}

func (o *offeredConn) Close() error {
	defer o.release()
	return o.Conn.Close()
}

// info returns what gRPC would have learned from a handshake of its own.
func (o *offeredConn) info() credentials.TLSInfo {
	return credentials.TLSInfo{State: o.ConnectionState(), CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}
}
