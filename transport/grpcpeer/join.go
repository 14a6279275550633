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

// gate serves Join to nodes without a certificate, and Renew to those whose certificate may have ended, on the
// connections that admission hands to it. It is the listener of a gRPC server of its own.
type gate struct {
	handover
	self     *identity.Identity
	log      *slog.Logger
	grpc     *grpc.Server
	room     chan struct{} // connections at once
	tries    *rateLimiter
	grace    time.Duration
	refusals *refusals
}

// newGate returns nil for a node that is of no cluster. Nobody comes to that of a node that does not hold
// its cluster's authority, but it may be entrusted with that.
func newGate(cfg Config, addr net.Addr, r *refusals) *gate {
	if cfg.Identity.Authority() == identity.Local {
		return nil
	}
	g := &gate{
		handover: newHandover(addr), self: cfg.Identity, log: cfg.Logger, room: make(chan struct{}, joinVisitors),
		tries: newRateLimiter(float64(cfg.Limits.Joins)/60, cfg.Limits.Joins), refusals: r, grace: cfg.Limits.Grace,
	}
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

// accept hands a connection to the server, or says why not.
func (g *gate) accept(v *visitor) error {
	select {
	case g.room <- struct{}{}:
	default:
		return errGateFull
	}
	in := &guest{Conn: v, leave: sync.OnceFunc(func() { <-g.room })}
	err := g.send(context.Background(), in)
	if err != nil {
		in.leave()
	}
	return err
}

// visitor is a connection whose TLS handshake is done and whose other end has shown no certificate that was checked.
type visitor struct {
	net.Conn
	state tls.ConnectionState
}

// shown is the transport credentials of the gate's server: the handshake is done.
type shown struct{ establishedCredentials }

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

// joinDesk answers nodes that have no certificate, or one that may have ended.
type joinDesk struct {
	pb.UnimplementedJoinServer
	gate *gate
}

func (g *gate) desk() *joinDesk { return &joinDesk{gate: g} }

func (d *joinDesk) Join(ctx context.Context, r *pb.JoinRequest) (*pb.JoinReply, error) {
	return certified(ctx, d.gate, "join", func(c *identity.Cluster, s tls.ConnectionState) (*pb.JoinReply, error) { return c.Admit(s, r) })
}

func (d *joinDesk) Renew(ctx context.Context, r *pb.RenewRequest) (*pb.RenewReply, error) {
	return certified(ctx, d.gate, "late renewal", func(c *identity.Cluster, s tls.ConnectionState) (*pb.RenewReply, error) {
		return c.RenewLate(s, r, d.gate.grace)
	})
}

// certified has the cluster answer a request that came over a connection of the gate. A refusal is counted, and
// heard after a pause.
func certified[R any](ctx context.Context, g *gate, what string, answer func(*identity.Cluster, tls.ConnectionState) (R, error)) (reply R, err error) {
	p, _ := peer.FromContext(ctx)
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	c := g.self.Cluster()
	switch {
	case !ok:
		err = identity.ErrBadRequest
	case !g.tries.allow(hostOf(p.Addr), time.Now()):
		err = errTooOften
	case c == nil:
		err = identity.ErrNoAuthority
	default:
		reply, err = answer(c, info.State)
	}
	if err == nil {
		g.log.Info("node got a certificate", "request", what, "addr", p.Addr)
		return reply, nil
	}
	g.refusals.add(RefusedJoin, "")
	g.log.Warn("certificate refused", "request", what, "addr", p.Addr, "err", err)
	wait := time.NewTimer(joinPause)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
	case <-g.closed:
	}
	return reply, joinStatus(err)
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
		return nil, joinStatus(identity.ErrBadRequest)
	}
	c := d.self.Cluster()
	if c == nil {
		return nil, joinStatus(identity.ErrNoAuthority)
	}
	reply, err := c.Renew(who.Peer, r)
	if err != nil {
		d.log.Warn("renewal refused", "node", who.ID, "err", err)
		return nil, joinStatus(err)
	}
	return reply, nil
}
