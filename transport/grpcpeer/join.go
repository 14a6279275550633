package grpcpeer

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"

	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// Limits of joining. A person pastes a line; whatever is faster is not a person.
const (
	joinSize     = 16 << 10               // of a message, in bytes
	joinVisitors = 8                      // connections at once
	joinLife     = 15 * time.Second       // of a connection
	joinPause    = 300 * time.Millisecond // before a refusal is heard
)

var (
	errGateFull = errors.New("too many nodes ask to join at once")
	errTooOften = errors.New("too many tries to join; wait a minute")
)

// gate serves Join to who has no certificate, on the connections that the doorkeeper hands to it. It is
// the listener of a gRPC server of its own.
type gate struct {
	addr    net.Addr
	self    *identity.Identity
	log     *slog.Logger
	grpc    *grpc.Server
	arrived chan net.Conn
	room    chan struct{} // connections at once
	shut    chan struct{}
	close   func()
	pace    *pace // tries, by address
	tally   *tally
}

// newGate returns nil for a node that is of no cluster. Nobody comes to that of a node that does not hold
// its cluster's authority, but it may be entrusted with that.
func newGate(cfg Config, addr net.Addr, t *tally) *gate {
	if cfg.Identity.Authority() == identity.Local {
		return nil
	}
	g := &gate{
		addr: addr, self: cfg.Identity, log: cfg.Logger, arrived: make(chan net.Conn), room: make(chan struct{}, joinVisitors), shut: make(chan struct{}),
		pace: newPace(float64(cfg.Limits.Joins)/60, cfg.Limits.Joins), tally: t,
	}
	g.close = sync.OnceFunc(func() { close(g.shut) })
	g.grpc = grpc.NewServer(
		grpc.Creds(shown{}),
		grpc.ChainUnaryInterceptor(recoverUnary(cfg.Logger)),
		grpc.ChainStreamInterceptor(recoverStream(cfg.Logger)),
		grpc.MaxRecvMsgSize(joinSize),
		grpc.MaxHeaderListSize(8<<10),
		grpc.MaxConcurrentStreams(1),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: joinLife, MaxConnectionAgeGrace: time.Second}),
		grpc.WaitForHandlers(true),
	)
	pb.RegisterJoinServer(g.grpc, g.desk())
	return g
}

// take hands a connection to the server, or says why not.
func (g *gate) take(v *visitor) error {
	select {
	case g.room <- struct{}{}:
	default:
		return errGateFull
	}
	in := &guest{Conn: v, leave: sync.OnceFunc(func() { <-g.room })}
	select {
	case g.arrived <- in:
		return nil
	case <-g.shut:
		in.leave()
		return net.ErrClosed
	}
}

// Accept, Close and Addr make the gate a net.Listener.
func (g *gate) Accept() (net.Conn, error) {
	select {
	case c := <-g.arrived:
		return c, nil
	case <-g.shut:
		return nil, net.ErrClosed
	}
}

func (g *gate) Close() error   { g.close(); return nil }
func (g *gate) Addr() net.Addr { return g.addr }

// visitor is a connection whose TLS handshake is done and whose other end has shown no certificate.
type visitor struct {
	net.Conn
	state tls.ConnectionState
}

// shown is the transport credentials of the gate's server: the handshake is done.
type shown struct{ handed }

func (shown) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	g, ok := c.(*guest)
	if !ok {
		return nil, nil, errors.New("a connection that did not come through the door")
	}
	v, ok := g.Conn.(*visitor)
	if !ok {
		return nil, nil, errors.New("a connection that did not come to join")
	}
	return c, credentials.TLSInfo{State: v.state, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}, nil
}

func (s shown) Clone() credentials.TransportCredentials { return s }

// joinDesk answers who has no certificate yet.
type joinDesk struct {
	pb.UnimplementedJoinServer
	gate *gate
}

func (g *gate) desk() *joinDesk { return &joinDesk{gate: g} }

func (d *joinDesk) Join(ctx context.Context, r *pb.JoinRequest) (*pb.JoinReply, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil, joinRefusal(identity.ErrTokenUnknown)
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return nil, joinRefusal(identity.ErrTokenUnknown)
	}
	reply, err := d.admit(p.Addr, info.State, r)
	if err == nil {
		d.gate.log.Info("node joined the cluster", "addr", p.Addr)
		return reply, nil
	}
	d.gate.tally.add(RefusedJoin, "")
	d.gate.log.Warn("join refused", "addr", p.Addr, "err", err)
	wait := time.NewTimer(joinPause)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
	case <-d.gate.shut:
	}
	return nil, joinRefusal(err)
}

func (d *joinDesk) admit(from net.Addr, state tls.ConnectionState, r *pb.JoinRequest) (*pb.JoinReply, error) {
	if !d.gate.pace.allow(hostOf(from), time.Now()) {
		return nil, errTooOften
	}
	c := d.gate.self.Cluster()
	if c == nil {
		return nil, identity.ErrNoAuthority
	}
	return c.Admit(state, r)
}

// renewDesk answers nodes that have a certificate, on the server of Peer.
type renewDesk struct {
	pb.UnimplementedJoinServer
	self *identity.Identity
	log  *slog.Logger
}

func (d *renewDesk) Renew(ctx context.Context, r *pb.RenewRequest) (*pb.RenewReply, error) {
	who, ok := callerOf(ctx)
	if !ok {
		return nil, joinRefusal(identity.ErrBadRequest)
	}
	c := d.self.Cluster()
	if c == nil {
		return nil, joinRefusal(identity.ErrNoAuthority)
	}
	reply, err := c.Renew(who.Peer, r)
	if err != nil {
		d.log.Warn("renewal refused", "node", who.ID, "err", err)
		return nil, joinRefusal(err)
	}
	return reply, nil
}
