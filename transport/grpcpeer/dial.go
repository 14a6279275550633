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
)

var (
	errNowhere = errors.New("none of its addresses can be reached from here; a node without a cluster identity meets nodes of this machine only")
	errNews    = errors.New("something else was said of it meanwhile")
	errSelf    = errors.New("this node itself answers there")
	errTwin    = errors.New("a node with this node's own identity answers there: was its folder copied? Give one of the two a new key")
)

// dial tries the addresses in turn until a node proves who it is.
func (n *Network) dial(t target) (*link, error) {
	leave, err := n.lines.enter(n.search, t)
	if err != nil {
		return nil, err
	}
	defer leave()
	release, err := n.slot(n.search, t)
	if err != nil {
		return nil, err
	}
	defer release()
	if t.claimed != "" {
		if _, err := identity.ParseNodeID(string(t.claimed)); err != nil {
			return nil, fmt.Errorf("%w: %w", errForbidden, err)
		}
	}
	addrs := n.reachable(t.addrs)
	if len(addrs) == 0 {
		return nil, errNowhere
	}
	var firstErr error
	for _, a := range addrs {
		if firstErr != nil && n.moved(t.of, a) {
			continue // each address where nobody is any more takes two seconds
		}
		l, err := n.dialOne(a, t.claimed)
		if err == nil {
			return l, nil
		}
		// What a wrong node said tells more than that nobody is at another address.
		if firstErr == nil || refusalOf(firstErr) == "" && refusalOf(err) != "" {
			firstErr = err
		}
		if n.search.Err() != nil {
			break
		}
	}
	return nil, firstErr
}

func (n *Network) dialOne(addr netip.AddrPort, expect community.NodeID) (*link, error) {
	ctx, cancel := context.WithTimeout(n.search, connectTimeout)
	raw, err := n.cfg.Dial(ctx, addr)
	cancel()
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	ctx, cancel = context.WithTimeout(n.search, handshakeTimeout)
	defer cancel()
	l, err := n.greet(ctx, raw, addr, expect)
	if err != nil {
		raw.Close()
		return nil, fmt.Errorf("greet %s: %w", addr, n.cfg.Identity.Explain(err))
	}
	return l, nil
}

// greet makes the TLS handshake and asks the node to describe itself.
func (n *Network) greet(ctx context.Context, raw net.Conn, addr netip.AddrPort, expect community.NodeID) (*link, error) {
	shown := n.cfg.Identity.NotAfter() // of the certificate that the handshake shows, or of one before it
	below := newBatch(raw)
	conn := tls.Client(below, n.cfg.Identity.ClientTLS(expect))
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	state := conn.ConnectionState()
	who, err := identity.PeerOf(state)
	if err != nil {
		return nil, err
	}
	if who.ID == n.self && n.isOwn(raw, addr) {
		return nil, errSelf
	}
	return n.meet(ctx, newWire(conn, below), state, addr, shown)
}

// meet makes a link of a connection whose handshake is done, and asks the node to describe itself. The
// address is the one that was dialled; none when the node opened the connection. shown is the end of the
// certificate that this node has shown.
func (n *Network) meet(ctx context.Context, w *wire, state tls.ConnectionState, addr netip.AddrPort, shown time.Time) (*link, error) {
	who, err := identity.PeerOf(state)
	if err != nil {
		return nil, err
	}
	l, err := newLink(w, handed{state}, who.ID, n.cfg.Limits)
	if err != nil {
		return nil, err
	}
	l.peer = community.Peer{ID: who.ID, Authority: who.Authority, Role: who.Role, Addr: w.RemoteAddr().String()}
	if l.addr = addr; addr.IsValid() {
		l.peer.Addr = addr.String()
	}
	leaf := state.VerifiedChains[0][0]
	l.half = leaf.NotAfter.Sub(leaf.NotBefore) / 2
	l.theirs.extend(leaf.NotAfter)
	l.ours.extend(shown)
	l.raw, l.heard, l.alarmed, l.undelivered = w.raw, n.hear, n.hearTwin, n.server.undelivered
	l.introduced = n.introduced.hear
	self := n.introduction()
	self.Port = n.portAt(w.LocalAddr())
	if err := l.describe(ctx, self); err != nil {
		l.close()
		if refused := w.refusal(); refused != nil {
			return nil, refused
		}
		return nil, n.heedTwin(err)
	}
	if who.ID == n.self { // which has not said that it is a twin
		l.close()
		return nil, errTwin
	}
	l.since = time.Now()
	return l, nil
}

// isOwn reports whether a connection to addr came back to this node: to its port, and, where that can be
// told, from the address that it went to. Nodes on other machines may well have the same port.
func (n *Network) isOwn(c net.Conn, addr netip.AddrPort) bool {
	own, ok := n.Addr().(*net.TCPAddr)
	if !ok || own.Port != int(addr.Port()) {
		return false
	}
	from, ok := c.LocalAddr().(*net.TCPAddr)
	return !ok || from.IP.IsLoopback() || from.AddrPort().Addr().Unmap() == addr.Addr().Unmap()
}

// refusalOf says whether an error means that somebody wrong answered, rather than nobody.
func refusalOf(err error) State {
	var other *incompatible
	if errors.As(err, &other) {
		return StateIncompatible
	}
	for _, wrong := range []error{
		identity.ErrOtherAuthority, identity.ErrExpired, identity.ErrNotYetValid, identity.ErrWrongNode, identity.ErrNotNode,
		identity.ErrPlaintext, identity.ErrRejected, identity.ErrRemoved, errForbidden, errNowhere, errSelf, errTwin,
	} {
		if errors.Is(err, wrong) {
			return StateRefused
		}
	}
	return ""
}

func isFarewell(err error) bool { return errors.As(err, new(farewell)) }
