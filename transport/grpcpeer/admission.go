package grpcpeer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"symbio/security/identity"
)

var (
	errTooManyConns      = errors.New("it has too many connections to this node already")
	errTooManyHandshakes = errors.New("too many connections prove themselves at once")
	errHandshakeRate     = errors.New("too many connections from there that proved nothing")
	errListenerFull      = errors.New("too many connections are open here")
)

// admission is the transport credentials of the gRPC server. It runs the TLS handshake of each
// incoming connection, which verifies the node once, and attaches the result (verified) to all
// requests on the connection.
//
// ALPN decides where the connection goes afterwards: ordinary ones to the gRPC server of Peer; ones
// without a certificate to joinServer, whose gRPC server has no service but Join; reversed ones to
// the reverser. gRPC calls ServerHandshake from one goroutine per connection.
type admission struct {
	credentials.TransportCredentials
	// handshakes bounds the handshakes at a time: each costs signatures, before anything is known
	// about the other side.
	handshakes chan struct{} // handshakes at once
	failures   *rateLimiter  // handshakes that proved nothing, by address
	conns      *connTable
	revoked    *identity.Revocations
	join       *joinServer // nil: no node can join here
	onRefused  func(addr net.Addr, why error)
	// reversed takes a connection over which this node is to call who opened it.
	onReversed func(conn net.Conn, below *batchConn, state tls.ConnectionState) error
	// onGossip takes a stream of gossip.
	onGossip func(conn net.Conn, peer identity.Peer) error
}

// newAdmission returns the credentials for a server with identity id. join is nil when no node can
// join here. onRefused is called for each refused connection with the reason, but not for
// connections that just went away.
func newAdmission(id *identity.Identity, l Limits, g *joinServer, refused func(net.Addr, error)) *admission {
	server := id.ServerTLS()
	var joining *tls.Config // nil: no node can join here
	if g != nil {
		joining = id.JoinTLS()
	}
	server.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		switch {
		case joining != nil && id.Cluster() != nil && slices.Contains(hello.SupportedProtos, identity.JoinProtocol):
			return joining, nil
		case slices.Contains(hello.SupportedProtos, identity.ReverseProtocol):
			return id.ProtocolServerTLS(identity.ReverseProtocol), nil
		case slices.Contains(hello.SupportedProtos, identity.GossipProtocol):
			return id.ProtocolServerTLS(identity.GossipProtocol), nil
		}
		return id.ServerTLS(), nil // the authorities that are trusted may have changed
	}
	return &admission{
		TransportCredentials: credentials.NewTLS(server),
		handshakes:           make(chan struct{}, l.Handshakes),
		failures:             newRateLimiter(handshakeRate, l.HandshakeBurst),
		conns:                &connTable{max: l.PerNode, byNode: map[identity.NodeID][]*slotConn{}},
		revoked:              id.Revocations(),
		join:                 g,
		onRefused: func(a net.Addr, err error) {
			switch {
			case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed): // it went away: a port scan, a node that stops
			case errors.Is(err, os.ErrDeadlineExceeded):
				refused(a, fmt.Errorf("it did not prove who it is within %v", handshakeTimeout))
			default:
				refused(a, id.ExplainCaller(err))
			}
		},
	}
}

// ServerHandshake verifies one incoming connection. The cheap limits come first. For a connection
// that is handed to another server it returns credentials.ErrConnDispatched, which tells gRPC to
// leave the connection open.
func (d *admission) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if o, ok := raw.(*offeredConn); ok {
		return d.admit(o, o, o.raw, o.info())
	}
	select {
	case d.handshakes <- struct{}{}:
		defer func() { <-d.handshakes }()
	default:
		return nil, nil, d.refuseEarly(raw, errTooManyHandshakes)
	}
	if !d.failures.allow(hostOf(raw.RemoteAddr()), time.Now()) {
		return nil, nil, d.refuseEarly(raw, errHandshakeRate)
	}
	below := newBatchConn(raw)
	conn, info, err := d.TransportCredentials.ServerHandshake(below)
	if err != nil {
		d.onRefused(raw.RemoteAddr(), err)
		return nil, nil, err
	}
	state := info.(credentials.TLSInfo).State
	if state.NegotiatedProtocol == identity.JoinProtocol {
		return nil, nil, d.dispatchJoin(conn, state)
	}
	if state.NegotiatedProtocol == identity.ReverseProtocol {
		return nil, nil, d.dispatchReversed(conn, below, state)
	}
	if state.NegotiatedProtocol == identity.GossipProtocol {
		return nil, nil, d.dispatchGossip(conn, state)
	}
	return d.admit(conn, raw, below, info.(credentials.TLSInfo))
}

// dispatchGossip hands over a stream of gossip. It refunds the attempt, as admit does.
func (d *admission) dispatchGossip(conn net.Conn, state tls.ConnectionState) error {
	p, err := identity.PeerOf(state)
	if err == nil {
		d.failures.refund(hostOf(conn.RemoteAddr()), time.Now())
		err = d.onGossip(conn, p)
	}
	if err != nil {
		conn.Close()
		return err
	}
	return credentials.ErrConnDispatched
}

// admit adds a connection with a verified certificate to the table of connections, and returns it
// with its caller. It refunds the attempt: only failed handshakes count against
// handshakeRate.
func (d *admission) admit(conn, raw net.Conn, below *batchConn, info credentials.TLSInfo) (net.Conn, credentials.AuthInfo, error) {
	p, err := identity.PeerOf(info.State)
	if err != nil {
		d.onRefused(raw.RemoteAddr(), err)
		conn.Close()
		return nil, nil, err
	}
	d.failures.refund(hostOf(raw.RemoteAddr()), time.Now())
	in, ok := d.conns.admit(p.ID, conn, below)
	if !ok {
		d.onRefused(raw.RemoteAddr(), tooManyConns{p.ID})
		conn.Close()
		return nil, nil, errTooManyConns
	}
	// Asked again now that who closes the connections of a removed node can see this one.
	if d.revoked.Has(p.ID) {
		d.onRefused(raw.RemoteAddr(), identity.ErrRemoved)
		in.Close()
		return nil, nil, identity.ErrRemoved
	}
	in.validity.extend(info.State.VerifiedChains[0][0].NotAfter)
	remote := &caller{Peer: p, addr: raw.RemoteAddr().String(), validity: in.validity}
	return in, verifiedInfo{TLSInfo: info, caller: remote}, nil
}

// refuseEarly refuses a connection before its handshake, with a TLS alert, and returns why.
func (d *admission) refuseEarly(raw net.Conn, why error) error {
	d.onRefused(raw.RemoteAddr(), why)
	sendNoRoom(raw)
	return why
}

// dispatchJoin hands a connection without a client certificate to joinServer.
func (d *admission) dispatchJoin(conn net.Conn, state tls.ConnectionState) error {
	if err := d.join.accept(&joinConn{Conn: conn, state: state}); err != nil {
		d.onRefused(conn.RemoteAddr(), err)
		conn.Close()
		return err
	}
	return credentials.ErrConnDispatched
}

// dispatchReversed hands over a connection on which this node is to call its opener. A reversed
// connection that is not needed is closed without being counted as a refusal: two nodes may dial
// each other at the same moment.
func (d *admission) dispatchReversed(conn net.Conn, below *batchConn, state tls.ConnectionState) error {
	if err := d.onReversed(conn, below, state); err != nil {
		conn.Close()
		return err
	}
	return credentials.ErrConnDispatched
}

// Clone is part of the interface; a copy shares all tables.
func (d *admission) Clone() credentials.TransportCredentials { c := *d; return &c }

// verifiedInfo is the AuthInfo of a connection whose node is verified. callerOf finds it in a request's
// context.
type verifiedInfo struct {
	credentials.TLSInfo
	caller *caller
}

// callerOf returns the verified caller of a request. The identity comes from the connection's TLS
// handshake, never from metadata or a message. It returns false on connections that admission did
// not admit.
func callerOf(ctx context.Context) (*caller, bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil, false
	}
	proven, ok := p.AuthInfo.(verifiedInfo)
	return proven.caller, ok && proven.caller != nil
}

// establishedCredentials is the client's transport credentials for a connection whose TLS handshake
// is done. The dialer makes the handshake itself, because it must know which node answered before
// gRPC uses the connection.
type establishedCredentials struct{ state tls.ConnectionState }

func (h establishedCredentials) ClientHandshake(_ context.Context, _ string, c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return c, credentials.TLSInfo{State: h.state, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}, nil
}

func (h establishedCredentials) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are for a client")
}

func (h establishedCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

func (h establishedCredentials) Clone() credentials.TransportCredentials { return h }

// OverrideServerName is part of the interface; names were settled in the handshake.
func (h establishedCredentials) OverrideServerName(string) error { return nil }
