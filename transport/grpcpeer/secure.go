package grpcpeer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"symbio/security/identity"
)

var (
	errCrowded = errors.New("it has too many connections to this node already")
	errRush    = errors.New("too many connections prove themselves at once")
)

// doorkeeper is the server's transport credentials: a handshake proves who a connection is of, once,
// and that goes with each of its calls.
type doorkeeper struct {
	credentials.TransportCredentials
	room    chan struct{} // handshakes at once
	crowd   *crowd
	refused func(addr net.Addr, why error)
}

func newDoorkeeper(id *identity.Identity, l Limits, refused func(net.Addr, error)) *doorkeeper {
	return &doorkeeper{
		TransportCredentials: credentials.NewTLS(id.ServerTLS()),
		room:                 make(chan struct{}, l.Handshakes),
		crowd:                &crowd{max: l.PerNode, of: map[identity.NodeID]int{}},
		refused: func(a net.Addr, err error) {
			switch {
			case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed): // it went away: a port scan, a node that stops
			case errors.Is(err, os.ErrDeadlineExceeded):
				refused(a, fmt.Errorf("it did not prove who it is within %v", handshakeTimeout))
			default:
				refused(a, id.Explain(err))
			}
		},
	}
}

func (d *doorkeeper) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	select {
	case d.room <- struct{}{}:
		defer func() { <-d.room }()
	default:
		d.refused(raw.RemoteAddr(), errRush)
		return nil, nil, errRush
	}
	conn, info, err := d.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		d.refused(raw.RemoteAddr(), err)
		return nil, nil, err
	}
	p, err := identity.PeerOf(info.(credentials.TLSInfo).State)
	if err != nil {
		d.refused(raw.RemoteAddr(), err)
		conn.Close()
		return nil, nil, err
	}
	leave, ok := d.crowd.admit(p.ID)
	if !ok {
		d.refused(raw.RemoteAddr(), fmt.Errorf("%w: node %s", errCrowded, p.ID))
		conn.Close()
		return nil, nil, errCrowded
	}
	who := &caller{Peer: p, addr: raw.RemoteAddr().String()}
	return &guest{Conn: conn, leave: leave}, proof{TLSInfo: info.(credentials.TLSInfo), who: who}, nil
}

func (d *doorkeeper) Clone() credentials.TransportCredentials { c := *d; return &c }

// proof is the AuthInfo of a connection whose other end is proven.
type proof struct {
	credentials.TLSInfo
	who *caller
}

// callerOf says who a call is from, by the handshake of the connection it came over; never by
// metadata or a message.
func callerOf(ctx context.Context) (*caller, bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil, false
	}
	proven, ok := p.AuthInfo.(proof)
	return proven.who, ok && proven.who != nil
}

// handed is the client's transport credentials: the connection that is handed over has made its TLS
// handshake, so that who answers is known before gRPC says a word.
type handed struct{ state tls.ConnectionState }

func (h handed) ClientHandshake(_ context.Context, _ string, c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return c, credentials.TLSInfo{State: h.state, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}, nil
}

func (h handed) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are for a client")
}

func (h handed) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

func (h handed) Clone() credentials.TransportCredentials { return h }

// OverrideServerName is part of the interface; names were settled in the handshake.
func (h handed) OverrideServerName(string) error { return nil }
