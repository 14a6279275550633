package grpcpeer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"symbio/community"
	"symbio/security/identity"
	"symbio/transport/grpcpeer/internal/calls"
)

var (
	// These errors are shown to users in the list of nodes, as the reason why a candidate is not
	// connected.
	errNoAddress      = errors.New("none of its addresses can be reached from here; a node without a cluster identity meets nodes of this machine only")
	errNewHint        = errors.New("another hint of it came meanwhile")
	errReplaced       = errors.New("the cluster has another authority now, and this node got a certificate of it there")
	errSelf           = errors.New("this node itself answers there")
	errDuplicateThere = errors.New("a node with this node's own identity answers there: was its folder copied? Give one of the two a new key")
)

// dialer makes links: it connects over TCP, makes the TLS handshake, and calls Describe. It is safe
// for concurrent use; each candidate's goroutine calls dial.
type dialer struct {
	*local
	conns       *connTable
	duplicates  *duplicates
	renewal     *renewal
	undelivered func(community.DeliveryFailure)
	perAddr     addrLimiter
	slots       dialSlots
}

// newDialer returns a dialer with Limits.Dials slots.
func newDialer(n *local, c *connTable, t *duplicates, r *renewal) *dialer {
	return &dialer{local: n, conns: c, duplicates: t, renewal: r, perAddr: newAddrLimiter(), slots: newDialSlots(n.cfg.Limits.Dials)}
}

// dial tries the addresses of t in turn until a node at one of them proves its identity, and
// returns the link. It waits for a slot first.
//
// It returns errNewHint when a better hint came or the candidate was dropped while it waited, and
// otherwise the error that says most: a wrong answer tells the user more than silence.
func (n *dialer) dial(t target) (*link, error) {
	leave, err := n.perAddr.acquire(n.life.search, t)
	if err != nil {
		return nil, err
	}
	defer leave()
	slots, err := n.slots.acquire(n.life.search, t)
	if err != nil {
		return nil, err
	}
	var handshake time.Duration // of the last address that took the connection
	defer func() { slots.release(handshake) }()
	done, ok := t.begin()
	if !ok { // others were reached meanwhile
		return nil, errNewHint
	}
	defer done()
	if t.claimed != "" {
		if _, err := identity.ParseNodeID(string(t.claimed)); err != nil {
			return nil, fmt.Errorf("%w: %w", calls.ErrProtocol, err)
		}
	}
	ends := n.reachable(t)
	if len(ends) == 0 {
		return nil, errNoAddress
	}
	var firstErr error
	for _, e := range ends {
		if firstErr != nil && t.isStale(e) {
			continue // each address without a node takes two seconds
		}
		l, err := n.dialOne(e, t.claimed, &handshake)
		if err == nil {
			return l, nil
		}
		// The answer of a wrong node tells more than the silence of another address.
		if firstErr == nil || refusalOf(firstErr) == "" && refusalOf(err) != "" {
			firstErr = err
		}
		if n.life.search.Err() != nil {
			break
		}
	}
	return nil, firstErr
}

// dialOne connects to one endpoint. expect is the node that must answer; "" accepts any node of the
// cluster. If this node's own certificate has ended, for example after weeks of being switched off,
// it is renewed there first. took is set to how long the handshake took.
func (n *dialer) dialOne(at endpoint, expect community.NodeID, took *time.Duration) (*link, error) {
	if n.cfg.Identity.Expired() {
		if err := n.renewal.renewAt(at, expect); err != nil && n.cfg.Identity.Expired() {
			return nil, fmt.Errorf("this node's certificate has ended; ask %s for the next one: %w", at, err)
		}
		n.cfg.Logger.Info("certificate renewed after its end", "until", n.cfg.Identity.NotAfter(), "addr", at.String())
	}
	stop := n.renewal.members.first.connecting()
	raw, err := n.connect(at)
	stop()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(n.life.search, handshakeTimeout)
	defer cancel()
	began := time.Now()
	l, err := n.handshake(ctx, raw, at, expect)
	*took = time.Since(began)
	if err != nil {
		raw.Close()
		if n.renewal.isReplaced(n.cfg.Identity.Explain(err)) && n.renewal.renewAt(at, expect) == nil {
			return nil, errReplaced
		}
		if ctx.Err() == context.DeadlineExceeded {
			err = fmt.Errorf("it took the connection and did not answer within %v: its process hangs, or large packets are lost on the way "+
				"(the MTU of a VPN or tunnel; try ping -M do -s 1400 HOST): %w", handshakeTimeout, err)
		}
		return nil, fmt.Errorf("greet %s: %w", at, n.cfg.Identity.Explain(err))
	}
	return l, nil
}

// connect opens the connection within the endpoint's timeout.
func (n *local) connect(at endpoint) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(n.life.search, at.timeout())
	defer cancel()
	raw, err := n.open(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", at, err)
	}
	return raw, nil
}

// handshake makes the TLS handshake, which verifies the other node's certificate, and then calls
// establish. It does not close raw on an error; the caller does.
func (n *dialer) handshake(ctx context.Context, raw net.Conn, at endpoint, expect community.NodeID) (*link, error) {
	shown := n.cfg.Identity.NotAfter() // of the certificate that the handshake shows, or of one before it
	below := newBatchConn(raw)
	conn := tls.Client(below, n.cfg.Identity.ClientTLS(expect))
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	state := conn.ConnectionState()
	remote, err := identity.PeerOf(state)
	if err != nil {
		return nil, err
	}
	if remote.ID == n.self() && n.isOwn(raw, at.addr) {
		return nil, errSelf
	}
	return n.establish(ctx, newLinkConn(conn, below), state, at, shown)
}

// establish makes a link of a connection whose TLS handshake is done, and calls Describe on it.
// at is what was dialed, nowhere for a reversed connection. shown is
// the end of the certificate that this node has shown.
//
// It closes the connection on an error. It returns errSelf or errDuplicateThere when the other end
// has this node's own key.
func (n *dialer) establish(ctx context.Context, w *linkConn, state tls.ConnectionState, at endpoint, shown time.Time) (*link, error) {
	remote, err := identity.PeerOf(state)
	if err != nil {
		return nil, err
	}
	l, err := newLink(w, establishedCredentials{state}, remote.ID, n.cfg.Limits)
	if err != nil {
		return nil, err
	}
	l.peer = community.Peer{ID: remote.ID, Authority: remote.Authority, Role: remote.Role, Labels: remote.Labels, Addr: w.RemoteAddr().String()}
	if l.at = at; at != (endpoint{}) {
		l.peer.Addr = at.String()
	}
	leaf := state.VerifiedChains[0][0]
	l.certs.halfLife = leaf.NotAfter.Sub(leaf.NotBefore) / 2
	l.certs.theirs.extend(leaf.NotAfter)
	l.certs.ours.extend(shown)
	l.events = linkEvents{n.renewal.addRevocations, n.renewal.takeStanding, n.duplicates.onAlarm, n.introduced.Add, n.undelivered}
	l.wire.raw, l.clock = w.raw, n.cfg.Clock
	l.wire.silence = func() time.Duration { return n.conns.silence(remote.ID, w.raw) }
	self := n.duplicates.describeRequest()
	self.Port = n.portAt(w.LocalAddr())
	if err := l.describe(ctx, self); err != nil {
		l.close()
		if refused := w.refusal(); refused != nil {
			return nil, refused
		}
		return nil, n.duplicates.checkError(err)
	}
	if remote.ID == n.self() { // and Describe did not return a duplicate mark
		l.close()
		return nil, errDuplicateThere
	}
	l.since = time.Now()
	return l, nil
}

// isOwn reports whether a connection to addr came back to this node itself: same port, and a source
// address equal to the target where that can be told. The port alone is not enough, since nodes on
// other machines usually have the same one.
func (n *dialer) isOwn(c net.Conn, addr netip.AddrPort) bool {
	own, ok := n.listener.Addr().(*net.TCPAddr)
	if !ok || own.Port != int(addr.Port()) {
		return false
	}
	from, ok := c.LocalAddr().(*net.TCPAddr)
	return !ok || from.IP.IsLoopback() || from.AddrPort().Addr().Unmap() == addr.Addr().Unmap()
}

// refusalOf returns StateRefused or StateIncompatible when err means that something answered at the
// address and is not a node to talk to, and "" when nothing answered.
func refusalOf(err error) State {
	if errors.As(err, new(incompatible)) {
		return StateIncompatible
	}
	for _, wrong := range []error{
		identity.ErrOtherAuthority, identity.ErrExpired, identity.ErrNotYetValid, identity.ErrWrongNode, identity.ErrNotNode,
		identity.ErrPlaintext, identity.ErrRejected, identity.ErrRemoved, calls.ErrProtocol, errNoAddress, errSelf, errDuplicateThere,
	} {
		if errors.Is(err, wrong) {
			return StateRefused
		}
	}
	return ""
}

// isGoodbye reports whether a link ended because its node said goodbye.
func isGoodbye(err error) bool { return errors.As(err, new(goodbye)) }

// portAt returns the port at which other nodes can dial this one, if they see its connections come
// from the given address; 0 means that the listener is not bound there.
func (n *local) portAt(local net.Addr) uint32 {
	own, ok := n.listener.Addr().(*net.TCPAddr)
	seen, ok2 := local.(*net.TCPAddr)
	if !ok || !ok2 {
		return 0
	}
	at, from := own.AddrPort().Addr().Unmap(), seen.AddrPort().Addr().Unmap()
	if at == from || at.IsUnspecified() && (at.Is6() || from.Is4()) {
		return uint32(own.Port)
	}
	return 0
}
