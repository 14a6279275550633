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
	maxJoinMessage   = 16 << 10               // of a message, in bytes
	maxJoinConns     = 8                      // connections at once
	maxJoinAge       = 15 * time.Second       // of a connection
	joinRefusalDelay = 300 * time.Millisecond // before a refusal is heard
)

var (
	errJoinFull = errors.New("too many nodes ask to join at once")
	errJoinRate = errors.New("too many tries to join; wait a minute")
)

// joinServer serves Join to nodes without a certificate, and Renew to those whose certificate may have ended, on the
// connections that admission hands to it. It is the listener of a gRPC server of its own.
type joinServer struct {
	connListener
	identity *identity.Identity
	log      *slog.Logger
	grpc     *grpc.Server
	slots    chan struct{} // connections at once
	rate     *rateLimiter
	grace    time.Duration
	refusals *refusals
}

// newJoinServer returns nil for a node that is of no cluster. Nobody comes to that of a node that does not hold
// its cluster's authority, but it may be entrusted with that.
func newJoinServer(cfg Config, addr net.Addr, r *refusals) *joinServer {
	if cfg.Identity.Authority() == identity.Local {
		return nil
	}
	g := &joinServer{
		connListener: newConnListener(addr), identity: cfg.Identity, log: cfg.Logger, slots: make(chan struct{}, maxJoinConns),
		rate: newRateLimiter(float64(cfg.Limits.Joins)/60, cfg.Limits.Joins), refusals: r, grace: cfg.Limits.Grace,
	}
	g.grpc = grpc.NewServer(
		grpc.Creds(joinCredentials{}),
		grpc.ChainUnaryInterceptor(recoverUnary(cfg.Logger)),
		grpc.ChainStreamInterceptor(recoverStream(cfg.Logger)),
		grpc.MaxRecvMsgSize(maxJoinMessage),
		grpc.MaxHeaderListSize(8<<10),
		grpc.MaxConcurrentStreams(1),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: maxJoinAge, MaxConnectionAgeGrace: time.Second}),
		grpc.WaitForHandlers(true),
	)
	pb.RegisterJoinServer(g.grpc, g.service())
	return g
}

// accept hands a connection to the server, or says why not.
func (g *joinServer) accept(v *joinConn) error {
	select {
	case g.slots <- struct{}{}:
	default:
		return errJoinFull
	}
	in := &slotConn{Conn: v, release: sync.OnceFunc(func() { <-g.slots })}
	err := g.send(context.Background(), in)
	if err != nil {
		in.release()
	}
	return err
}

// joinConn is a connection whose TLS handshake is done and whose other end has shown no certificate that was checked.
type joinConn struct {
	net.Conn
	state tls.ConnectionState
}

// joinCredentials is the transport credentials of the gate's server: the handshake is done.
type joinCredentials struct{ establishedCredentials }

func (joinCredentials) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	g, ok := c.(*slotConn)
	if !ok {
		return nil, nil, errors.New("a connection that did not come through the door")
	}
	v, ok := g.Conn.(*joinConn)
	if !ok {
		return nil, nil, errors.New("a connection that did not come to join")
	}
	return c, credentials.TLSInfo{State: v.state, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}, nil
}

func (s joinCredentials) Clone() credentials.TransportCredentials { return s }

// joinService answers nodes that have no certificate, or one that may have ended.
type joinService struct {
	pb.UnimplementedJoinServer
	server *joinServer
}

func (g *joinServer) service() *joinService { return &joinService{server: g} }

func (d *joinService) Join(ctx context.Context, r *pb.JoinRequest) (*pb.JoinReply, error) {
	return issueCertificate(ctx, d.server, "join", func(c *identity.Cluster, s tls.ConnectionState) (*pb.JoinReply, error) { return c.Admit(s, r) })
}

func (d *joinService) Renew(ctx context.Context, r *pb.RenewRequest) (*pb.RenewReply, error) {
	return issueCertificate(ctx, d.server, "late renewal", func(c *identity.Cluster, s tls.ConnectionState) (*pb.RenewReply, error) {
		return c.RenewLate(s, r, d.server.grace)
	})
}

// issueCertificate has the cluster answer a request that came over a connection of the gate. A refusal is counted, and
// heard after a pause.
func issueCertificate[R any](ctx context.Context, g *joinServer, what string, answer func(*identity.Cluster, tls.ConnectionState) (R, error)) (reply R, err error) {
	p, _ := peer.FromContext(ctx)
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	c := g.identity.Cluster()
	switch {
	case !ok:
		err = identity.ErrBadRequest
	case !g.rate.allow(hostOf(p.Addr), time.Now()):
		err = errJoinRate
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
	wait := time.NewTimer(joinRefusalDelay)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
	case <-g.closed:
	}
	return reply, joinStatus(err)
}

// renewService answers nodes that have a certificate, on the server of Peer.
type renewService struct {
	pb.UnimplementedJoinServer
	self *identity.Identity
	log  *slog.Logger
}

func (d *renewService) Renew(ctx context.Context, r *pb.RenewRequest) (*pb.RenewReply, error) {
	remote, ok := callerOf(ctx)
	if !ok {
		return nil, joinStatus(identity.ErrBadRequest)
	}
	c := d.self.Cluster()
	if c == nil {
		return nil, joinStatus(identity.ErrNoAuthority)
	}
	reply, err := c.Renew(remote.Peer, r)
	if err != nil {
		d.log.Warn("renewal refused", "node", remote.ID, "err", err)
		return nil, joinStatus(err)
	}
	return reply, nil
}
