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
	errCrowded = errors.New("it has too many connections to this node already")
	errRush    = errors.New("too many connections prove themselves at once")
	errPace    = errors.New("too many connections from there that proved nothing")
	errFull    = errors.New("too many connections are open here")
)

// admission is the server's transport credentials: a handshake proves who a connection is of, once,
// and that goes with each of its calls.
//
// A connection that was made for joining has no certificate. It is handed to the gate, whose gRPC server
// knows no service but Join, and never comes to the server that these credentials are of.
type admission struct {
	credentials.TransportCredentials
	room     chan struct{} // handshakes at once
	failures *rateLimiter  // handshakes that proved nothing, by address
	crowd    *crowd
	revoked  *identity.Revocations
	gate     *gate // nil: no node can join here
	refused  func(addr net.Addr, why error)
	// reversed takes a connection over which this node is to call who opened it.
	reversed func(conn net.Conn, below *batch, state tls.ConnectionState) error
}

func newAdmission(id *identity.Identity, l Limits, g *gate, refused func(net.Addr, error)) *admission {
	server, reversed := id.ServerTLS(), id.ReverseServerTLS()
	var joining *tls.Config // nil: no node can join here
	if g != nil {
		joining = id.JoinTLS()
	}
	server.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		switch {
		case joining != nil && id.Cluster() != nil && slices.Contains(hello.SupportedProtos, identity.JoinProtocol):
			return joining, nil
		case slices.Contains(hello.SupportedProtos, identity.ReverseProtocol):
			return reversed, nil
		}
		return nil, nil
	}
	return &admission{
		TransportCredentials: credentials.NewTLS(server),
		room:                 make(chan struct{}, l.Handshakes),
		failures:             newRateLimiter(l.HandshakeRate, l.HandshakeBurst),
		crowd:                &crowd{max: l.PerNode, of: map[identity.NodeID][]*guest{}},
		revoked:              id.Revocations(),
		gate:                 g,
		refused: func(a net.Addr, err error) {
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

func (d *admission) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if o, ok := raw.(*offered); ok {
		return d.admit(o, o, o.below, o.info())
	}
	select {
	case d.room <- struct{}{}:
		defer func() { <-d.room }()
	default:
		return nil, nil, d.noRoom(raw, errRush)
	}
	if !d.failures.allow(hostOf(raw.RemoteAddr()), time.Now()) {
		return nil, nil, d.noRoom(raw, errPace)
	}
	below := newBatch(raw)
	conn, info, err := d.TransportCredentials.ServerHandshake(below)
	if err != nil {
		d.refused(raw.RemoteAddr(), err)
		return nil, nil, err
	}
	state := info.(credentials.TLSInfo).State
	if state.NegotiatedProtocol == identity.JoinProtocol {
		return nil, nil, d.letJoin(conn, state)
	}
	if state.NegotiatedProtocol == identity.ReverseProtocol {
		return nil, nil, d.turn(conn, below, state)
	}
	return d.admit(conn, raw, below, info.(credentials.TLSInfo))
}

// admit lets in a connection whose other end has proven who it is.
func (d *admission) admit(conn, raw net.Conn, below *batch, info credentials.TLSInfo) (net.Conn, credentials.AuthInfo, error) {
	p, err := identity.PeerOf(info.State)
	if err != nil {
		d.refused(raw.RemoteAddr(), err)
		conn.Close()
		return nil, nil, err
	}
	d.failures.forgive(hostOf(raw.RemoteAddr()), time.Now())
	in, ok := d.crowd.admit(p.ID, conn, below)
	if !ok {
		d.refused(raw.RemoteAddr(), tooMany{p.ID})
		conn.Close()
		return nil, nil, errCrowded
	}
	// Asked again now that who closes the connections of a removed node can see this one.
	if d.revoked.Has(p.ID) {
		d.refused(raw.RemoteAddr(), identity.ErrRemoved)
		in.Close()
		return nil, nil, identity.ErrRemoved
	}
	in.term.extend(info.State.VerifiedChains[0][0].NotAfter)
	who := &caller{Peer: p, addr: raw.RemoteAddr().String(), term: in.term}
	return in, proof{TLSInfo: info, caller: who}, nil
}

// noRoom refuses a connection before its handshake.
func (d *admission) noRoom(raw net.Conn, why error) error {
	d.refused(raw.RemoteAddr(), why)
	sorry(raw)
	return why
}

// letJoin hands over a connection whose other end has no certificate. Its error ends what gRPC does with
// the connection here.
func (d *admission) letJoin(conn net.Conn, state tls.ConnectionState) error {
	if err := d.gate.accept(&visitor{Conn: conn, state: state}); err != nil {
		d.refused(conn.RemoteAddr(), err)
		conn.Close()
		return err
	}
	return credentials.ErrConnDispatched
}

// turn hands over a connection on which this node is to call. Its error ends what gRPC does with the
// connection here; offering a connection that is not needed is no error of the other node.
func (d *admission) turn(conn net.Conn, below *batch, state tls.ConnectionState) error {
	if err := d.reversed(conn, below, state); err != nil {
		conn.Close()
		return err
	}
	return credentials.ErrConnDispatched
}

func (d *admission) Clone() credentials.TransportCredentials { c := *d; return &c }

// proof is the AuthInfo of a connection whose other end is proven.
type proof struct {
	credentials.TLSInfo
	caller *caller
}

// callerOf says who a call is from, by the handshake of the connection it came over; never by
// metadata or a message.
func callerOf(ctx context.Context) (*caller, bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil, false
	}
	proven, ok := p.AuthInfo.(proof)
	return proven.caller, ok && proven.caller != nil
}

// establishedCredentials is the client's transport credentials: the connection that is handed over has made its TLS
// handshake, so that who answers is known before gRPC says a word.
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
