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

// Limits of joining. They suit a person who pastes a line; anything faster is a script that guesses.
const (
	maxJoinMessage   = 16 << 10               // of a message, in bytes
	maxJoinConns     = 8                      // connections at once
	maxJoinAge       = 15 * time.Second       // of a connection
	joinRefusalDelay = 300 * time.Millisecond // before a refusal is answered
)

var (
	errJoinFull = errors.New("too many nodes ask to join at once")
	errJoinRate = errors.New("too many tries to join; wait a minute")
)

// joinServer serves Join to machines without a certificate, and Renew to nodes whose certificate
// may have ended. Such callers are not verified, so they get a gRPC server of their own that knows
// nothing else, with small messages, few connections, and a rate limit per address. It is the
// listener of that server: admission hands connections to it.
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

// newJoinServer returns nil for a node without a cluster. A node of a cluster that does not hold
// the authority gets a joinServer too, because it may be given the authority later; until then
// admission sends it no connections.
func newJoinServer(cfg Config, addr net.Addr, r *refusals) *joinServer {
	if cfg.Identity.Authority() == identity.Local {
		return nil
	}
	g := &joinServer{
		connListener: newConnListener(addr), identity: cfg.Identity, log: cfg.Logger, slots: make(chan struct{}, maxJoinConns),
		rate: newRateLimiter(joinsPerMinute/60.0, joinsPerMinute), refusals: r, grace: cfg.Limits.Grace,
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

// accept hands a connection to the gRPC server, or returns errJoinFull. On an error the caller
// still owns the connection.
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

// joinConn is a connection whose TLS handshake is done without a verified client certificate.
type joinConn struct {
	net.Conn
	state tls.ConnectionState
}

// joinCredentials is the transport credentials of joinServer's gRPC server. It does no handshake;
// admission did it.
type joinCredentials struct{ establishedCredentials }

// ServerHandshake returns the TLS state of a joinConn, and an error for any other connection.
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

// joinService implements Join and the renewal of ended certificates.
type joinService struct {
	pb.UnimplementedJoinServer
	server *joinServer
}

func (g *joinServer) service() *joinService { return &joinService{server: g} }

// Join admits a new machine that has the token's secret. identity.Cluster.Admit checks it.
func (d *joinService) Join(ctx context.Context, r *pb.JoinRequest) (*pb.JoinReply, error) {
	return issueCertificate(ctx, d.server, "join", func(c *identity.Cluster, s tls.ConnectionState) (*pb.JoinReply, error) { return c.Admit(s, r) })
}

// Renew renews a certificate that may have ended up to Limits.Grace ago. identity.Cluster.RenewLate
// checks it.
func (d *joinService) Renew(ctx context.Context, r *pb.RenewRequest) (*pb.RenewReply, error) {
	return issueCertificate(ctx, d.server, "late renewal", func(c *identity.Cluster, s tls.ConnectionState) (*pb.RenewReply, error) {
		return c.RenewLate(s, r, d.server.grace)
	})
}

// issueCertificate answers a request for a certificate with the cluster's authority. It limits
// attempts per address and counts refusals. A refusal is delayed by joinRefusalDelay: together with
// the rate limit this makes guessing a token's secret hopeless, and a person does not notice it.
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

// renewService renews certificates that are still valid. It is on the server of Peer, where callers
// are verified.
type renewService struct {
	pb.UnimplementedJoinServer
	self *identity.Identity
	log  *slog.Logger
}

// Renew signs the next certificate of the caller. It returns FailedPrecondition when this node does
// not hold the authority.
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
