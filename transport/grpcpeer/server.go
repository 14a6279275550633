package grpcpeer

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
	"symbio/transport/grpcpeer/internal/calls"
)

// server implements the gRPC service Peer: Describe and Watch here, Invoke, InvokeStream and Link
// in the embedded calls.Server. gRPC calls its methods from many goroutines.
type server struct {
	calls.Server
	*local
	duplicates *duplicates
	renewal    *renewal
	candidates *candidates
	// watching has the caller of each open Watch stream as a key. alarmDuplicates uses it to reach
	// the streams of one node.
	watching sync.Map // *caller -> nothing
}

// newServer returns a server without a Host. Network.Run sets Host before it serves, so no request
// sees it nil.
func newServer(n *local, t *duplicates, r *renewal, c *candidates) *server {
	l := n.cfg.Limits
	return &server{local: n, duplicates: t, renewal: r, candidates: c, Server: calls.Server{
		Name: n.cfg.Name, MaxMessage: l.Message, MaxCalls: int(l.Streams), MaxDeadline: l.MaxDeadline, Logger: n.cfg.Logger,
		Caller: func(ctx context.Context) (calls.Caller, bool) { return callerOf(ctx) },
	}}
}

// newGRPC returns the gRPC server for ordinary and reversed connections.
//
// It overrides gRPC's defaults where they assume trusted or few peers: message and header sizes are
// bounded, an idle node is pinged after 10 s so that a dead connection frees its slot, and the
// windows are fixed because gRPC's estimator sends a ping per message on a quiet connection. Renew
// and Trust are served to nodes of a cluster only; a local identity has no authority.
func newGRPC(s *server, creds *admission, sizes *sizeWatcher) *grpc.Server {
	cfg, l := s.cfg, s.cfg.Limits
	g := grpc.NewServer(
		grpc.Creds(creds),
		grpc.StatsHandler(sizes),
		grpc.ChainUnaryInterceptor(recoverUnary(cfg.Logger)),
		grpc.ChainStreamInterceptor(recoverStream(cfg.Logger)),
		grpc.MaxRecvMsgSize(l.Message+calls.EnvelopeRoom),
		grpc.MaxSendMsgSize(maxCatalog),
		grpc.ForceServerCodecV2(calls.NewCodec()),
		grpc.MaxHeaderListSize(l.Header),
		grpc.MaxConcurrentStreams(l.Streams),
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(connWindow),
		grpc.WriteBufferSize(chunk),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: keepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		// Stop then returns when the last call has: nothing runs on behind Run's back.
		grpc.WaitForHandlers(true),
	)
	pb.RegisterPeerServer(g, s)
	if cfg.Identity.Authority() != identity.Local {
		pb.RegisterJoinServer(g, &renewService{self: cfg.Identity, log: cfg.Logger})
	}
	pb.RegisterTrustServer(g, &trustService{cfg: cfg, report: s.records.add})
	return g
}

// Describe tells a caller who this node is, and records what the caller says about itself: name,
// process, port, and revocation lists. It is the first call on each connection. It returns
// PermissionDenied for a connection without a verified certificate, and FailedPrecondition when
// another process with the same node key is running.
func (s *server) Describe(ctx context.Context, r *pb.DescribeRequest) (*pb.NodeDescriptor, error) {
	remote, ok := callerOf(ctx)
	if !ok {
		return nil, calls.ToStatus(community.ErrDenied)
	}
	name := clean(r.GetName())
	remote.name.Store(&name)
	if err := s.duplicates.checkCaller(ctx, remote, r.GetRun()); err != nil {
		return nil, err
	}
	s.renewal.takeStanding(remote.ID, r.GetStanding())
	s.renewal.addRevocations(remote.ID, append(r.GetMoreRevocations(), r.GetRevocations())...)
	s.recordPort(remote, r.GetPort())
	removed, more := revocationLists(s.cfg.Identity)
	return &pb.NodeDescriptor{
		Revocations:     removed,
		MoreRevocations: more,
		Standing:        s.cfg.Identity.Rotation().Standing(),
		HoldsAuthority:  s.cfg.Identity.Cluster() != nil,
		Run:             s.run.Mark(),

		Id:       string(s.cfg.Identity.ID()),
		Name:     s.cfg.Name,
		Protocol: protocol.toWire(),
		Catalog:  catalogTo(s.Host.Catalog()),

		MaxMessage: uint64(s.cfg.Limits.Message),
		// Half of the streams: the other half stays free for calls that wait for an answer.
		MaxSends: uint64(s.cfg.Limits.Streams) / 2,
	}, nil
}

// From returns the caller as the community sees it. Everything but the name is verified by the TLS
// handshake.
func (c *caller) From() community.Peer {
	p := community.Peer{ID: c.ID, Authority: c.Authority, Role: c.Role, Labels: c.Labels, Addr: c.addr}
	if name := c.name.Load(); name != nil {
		p.Name = *name
	}
	return p
}

// Connection returns the state that all Link streams of the connection share (the number of calls,
// the lanes).
func (c *caller) Connection() *calls.Connection { return &c.calls }

// Watch streams this node's catalog, its changes, and news of the cluster to one other node until
// either side stops.
//
// The subscription is bounded. When the watcher reads too slowly, the subscription skips changes
// and then yields a fresh snapshot, so that a slow watcher costs a constant amount of memory. A
// connection may have maxWatches streams; a further one gets ErrBusy.
func (s *server) Watch(_ *pb.WatchRequest, stream grpc.ServerStreamingServer[pb.CatalogEvent]) error {
	remote, ok := callerOf(stream.Context())
	if !ok {
		return calls.ToStatus(community.ErrDenied)
	}
	defer remote.watches.Add(-1)
	if remote.watches.Add(1) > maxWatches {
		return calls.ToStatus(community.ErrBusy)
	}
	s.watching.Store(remote, nil)
	defer s.watching.Delete(remote)
	ctx, stop := context.WithCancel(stream.Context())
	defer stop()
	defer context.AfterFunc(s.life.search, stop)()
	sub := s.Host.SubscribeLocal()
	defer sub.Close()
	cluster, neighbours := clusterFeed{identity: s.cfg.Identity}, s.newIntroductionFeed(remote)
	// changed ends when the cluster's state changes. The first round uses ctx, because the snapshot
	// must be the first event.
	changed := ctx // ends when there is news of the cluster, which comes after the snapshot
	for {
		event, err := s.next(ctx, changed, sub)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var events []*pb.CatalogEvent
		events, changed = cluster.events()
		if mark := remote.duplicate.Swap(nil); mark != nil {
			events = append(events, &pb.CatalogEvent{Event: &pb.CatalogEvent_Duplicate{Duplicate: mark}})
		}
		events = append(events, neighbours.events(time.Now())...)
		if event != nil {
			events = slices.Insert(events, 0, event)
		}
		for _, e := range events {
			if err := stream.Send(e); err != nil || e.GetGoodbye() != nil {
				return err
			}
		}
	}
}

// next waits for the next catalog change and returns its event. It returns a heartbeat after a
// second without a change, nil when changed ends (the caller then sends the cluster's news), a
// goodbye when this node stops, and io.EOF when ctx has ended.
func (s *server) next(ctx, changed context.Context, sub *community.Subscription) (*pb.CatalogEvent, error) {
	beat, cancel := context.WithTimeout(ctx, heartbeat)
	defer cancel()
	defer context.AfterFunc(changed, cancel)()
	change, err := sub.Next(beat)
	switch {
	case err == nil:
		return eventTo(change), nil
	case s.life.search.Err() != nil:
		return &pb.CatalogEvent{Event: &pb.CatalogEvent_Goodbye{Goodbye: &pb.Goodbye{Reason: "the node stops"}}}, nil
	case ctx.Err() != nil:
		return nil, io.EOF
	case changed.Err() != nil:
		return nil, nil
	case errors.Is(err, context.DeadlineExceeded):
		return &pb.CatalogEvent{Event: &pb.CatalogEvent_Heartbeat{Heartbeat: &pb.Heartbeat{Now: timestamppb.Now()}}}, nil
	}
	return nil, calls.ToStatus(community.ErrUnavailable)
}

// recoverUnary and recoverStream keep a panic in a handler from ending the process: one peer's bad
// request must not take down the calls of all others.
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

// recovered logs a panic with its stack and returns a status for the other node. The status has no
// details: a panic's text may contain data of another caller. It returns err unchanged when p is
// nil.
func recovered(p any, err error, log *slog.Logger, method string) error {
	if p == nil {
		return err
	}
	log.Error("call panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
	return status.Error(codes.Internal, "internal error")
}
