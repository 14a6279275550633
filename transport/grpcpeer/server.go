package grpcpeer

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// server answers other nodes.
type server struct {
	pb.UnimplementedPeerServer
	cfg  Config
	host community.Host // set before the first call
	// leaving ends when this node says goodbye.
	leaving context.Context
	run     *identity.Run
	// twin says whether a caller is a second node with one key.
	twin     func(context.Context, *caller, *pb.Run) error
	watching sync.Map // *caller -> nothing
	// hear takes lists of removed nodes.
	hear func(from community.NodeID, lists ...*pb.Revocations)
	// called takes the port at which a caller says that it can be dialled.
	called func(who *caller, port uint32)
	// news makes what a watcher is told besides the catalog.
	news func(who *caller) *news
	tell func(Event)
}

func newServer(cfg Config, s *server, creds *doorkeeper, scales *scales) *grpc.Server {
	l := cfg.Limits
	g := grpc.NewServer(
		grpc.Creds(creds),
		grpc.StatsHandler(scales),
		grpc.ChainUnaryInterceptor(recoverUnary(cfg.Logger)),
		grpc.ChainStreamInterceptor(recoverStream(cfg.Logger)),
		grpc.MaxRecvMsgSize(l.Message+envelopeRoom),
		grpc.MaxSendMsgSize(catalogSize),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxHeaderListSize(l.Header),
		grpc.MaxConcurrentStreams(l.Streams),
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(connWindow),
		grpc.WriteBufferSize(chunk),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 3 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		// Stop then returns when the last call has: nothing runs on behind Run's back.
		grpc.WaitForHandlers(true),
	)
	pb.RegisterPeerServer(g, s)
	if cfg.Identity.Authority() != identity.Local {
		pb.RegisterJoinServer(g, &renewDesk{self: cfg.Identity, log: cfg.Logger})
	}
	pb.RegisterTrustServer(g, &trustDesk{cfg: cfg, tell: s.tell})
	return g
}

func (s *server) Describe(ctx context.Context, r *pb.DescribeRequest) (*pb.NodeDescriptor, error) {
	who, ok := callerOf(ctx)
	if !ok {
		return nil, toWire(community.ErrDenied)
	}
	name := clean(r.GetName())
	who.name.Store(&name)
	if err := s.twin(ctx, who, r.GetRun()); err != nil {
		return nil, err
	}
	s.hear(who.ID, append(r.GetMoreRevocations(), r.GetRevocations())...)
	s.called(who, r.GetPort())
	removed, more := listsOf(s.cfg.Identity)
	return &pb.NodeDescriptor{
		Revocations:     removed,
		MoreRevocations: more,
		HoldsAuthority:  s.cfg.Identity.Cluster() != nil,
		Run:             s.run.Mark(),

		Id:       string(s.cfg.Identity.ID()),
		Name:     s.cfg.Name,
		Protocol: &pb.Version{Major: s.cfg.Protocol.Major, Minor: s.cfg.Protocol.Minor},
		Catalog:  catalogTo(s.host.Catalog()),

		MaxMessage: uint64(s.cfg.Limits.Message),
		MaxSends:   uint64(s.cfg.Limits.Streams) / 2,
	}, nil
}

func (s *server) Invoke(ctx context.Context, r *pb.InvokeRequest) (*pb.InvokeReply, error) {
	who, ok := callerOf(ctx)
	if !ok {
		return nil, toWire(community.ErrDenied)
	}
	if len(r.GetPayload()) > s.cfg.Limits.Message {
		return nil, toWire(community.ErrTooLarge)
	}
	ctx, cancel := s.bounded(ctx, r)
	defer cancel()
	reply, err := s.host.Serve(ctx, who.peer(), callFrom(r))
	if err != nil {
		return nil, toWire(err)
	}
	if len(reply.Data) > s.cfg.Limits.Message {
		return nil, toWire(community.ErrTooLarge)
	}
	return &pb.InvokeReply{Payload: reply.Data, ContentType: reply.ContentType}, nil
}

// undelivered is for the links of this node.
func (s *server) undelivered(u community.Undelivered) { s.host.NotDelivered(u) }

func (c *caller) peer() community.Peer {
	p := community.Peer{ID: c.ID, Authority: c.Authority, Role: c.Role, Addr: c.addr}
	if name := c.name.Load(); name != nil {
		p.Name = *name
	}
	return p
}

// bounded gives the call the shortSize of the caller's deadline, as gRPC and as the envelope say it,
// and this node's own.
func (s *server) bounded(ctx context.Context, r *pb.InvokeRequest) (context.Context, context.CancelFunc) {
	limit := s.limitOf(r)
	// gRPC rounds up to a millisecond; a timer for that would be for nothing.
	if at, ok := ctx.Deadline(); ok && time.Until(at) <= limit+time.Millisecond {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, limit)
}

// limitOf is how long the envelope and this node let a call take.
func (s *server) limitOf(r *pb.InvokeRequest) time.Duration {
	limit := s.cfg.Limits.MaxDeadline
	if d := r.GetDeadline(); d.IsValid() {
		limit = min(limit, d.AsDuration())
	}
	return limit
}

// Watch tells one other node about this one until either stops. When the watcher is too slow, its
// bounded subscription marks a gap, and it gets a fresh snapshot instead of what it missed.
func (s *server) Watch(_ *pb.WatchRequest, stream grpc.ServerStreamingServer[pb.CatalogEvent]) error {
	who, ok := callerOf(stream.Context())
	if !ok {
		return toWire(community.ErrDenied)
	}
	defer who.watches.Add(-1)
	if who.watches.Add(1) > maxWatches {
		return toWire(community.ErrBusy)
	}
	s.watching.Store(who, nil)
	defer s.watching.Delete(who)
	ctx, stop := context.WithCancel(stream.Context())
	defer stop()
	defer context.AfterFunc(s.leaving, stop)()
	sub := s.host.SubscribeLocal()
	defer sub.Close()
	board := bulletin{identity: s.cfg.Identity}
	begun := false
	news := s.news(who)
	for {
		changed, err := board.send(stream, begun) // nothing before the snapshot
		if err != nil {
			return err
		}
		if twin := who.twin.Swap(nil); twin != nil {
			if err := stream.Send(&pb.CatalogEvent{Event: &pb.CatalogEvent_Twin{Twin: twin}}); err != nil {
				return err
			}
		}
		if begun {
			for _, e := range news.due(time.Now()) {
				if err := stream.Send(e); err != nil {
					return err
				}
			}
		}
		beat, cancel := context.WithTimeout(ctx, heartbeat)
		hurry := context.AfterFunc(changed, cancel)
		change, err := sub.Next(beat)
		hurry()
		cancel()
		var event *pb.CatalogEvent
		switch {
		case err == nil:
			event = eventTo(change)
		case s.leaving.Err() != nil:
			return stream.Send(&pb.CatalogEvent{Event: &pb.CatalogEvent_Goodbye{Goodbye: &pb.Goodbye{Reason: "the node stops"}}})
		case ctx.Err() != nil:
			return nil // the watcher is gone
		case changed.Err() != nil:
			continue
		case errors.Is(err, context.DeadlineExceeded): // nothing has changed for a second
			event = &pb.CatalogEvent{Event: &pb.CatalogEvent_Heartbeat{Heartbeat: &pb.Heartbeat{}}}
		default:
			return toWire(community.ErrUnavailable)
		}
		if err := stream.Send(event); err != nil {
			return err
		}
		begun = true
	}
}

func recoverUnary(log *slog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (reply any, err error) {
		defer func() { err = recovered(recover(), err, log, info.FullMethod) }()
		return next(ctx, req)
	}
}

func recoverStream(log *slog.Logger) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
		defer func() { err = recovered(recover(), err, log, info.FullMethod) }()
		return next(srv, stream)
	}
}

// recovered turns a panic into an error that tells the other node nothing of it.
func recovered(p any, err error, log *slog.Logger, method string) error {
	if p == nil {
		return err
	}
	log.Error("call panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
	return status.Error(codes.Internal, "internal error")
}
