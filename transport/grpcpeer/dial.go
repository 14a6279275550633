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
	errSelf    = errors.New("this node itself answers there")
	errTwin    = errors.New("a node with this node's own identity answers there: was its folder copied? Give one of the two a new key")
)

// dial tries the addresses in turn until a node proves who it is.
func (n *Network) dial(t target) (*link, error) {
	release, ok := n.slot(n.search, t)
	if !ok {
		return nil, n.search.Err()
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
	w := newWire(conn, below)
	l, err := newLink(w, handed{state}, who.ID, n.cfg.Limits)
	if err != nil {
		return nil, err
	}
	l.peer = community.Peer{ID: who.ID, Authority: who.Authority, Role: who.Role, Addr: addr.String()}
	l.certEnd = state.VerifiedChains[0][0].NotAfter
	l.raw, l.heard, l.alarmed, l.undelivered = raw, n.hear, n.hearTwin, n.server.undelivered
	if err := l.describe(ctx, n.introduction()); err != nil {
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
