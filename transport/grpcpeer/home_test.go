package grpcpeer_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"symbio/actor"
	"symbio/community"
	"symbio/discovery"
	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
	"symbio/transport/grpcpeer"
)

// home is a community that lives on a network.
type home struct {
	*community.Community
	t       testing.TB
	id      community.NodeID
	network *grpcpeer.Network
	stop    context.CancelFunc
	done    sync.WaitGroup
	limit   func() (context.Context, context.CancelFunc) // of a wait
}

// live runs a community on a network until the test ends or stop is called.
func live(t testing.TB, id community.NodeID, name string, n *grpcpeer.Network, tune ...func(*community.Config)) *home {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	sys := actor.NewSystem(actor.Config{})
	h := &home{t: t, id: id, network: n, stop: stop}
	cfg := community.Config{Node: id, Name: name, Network: n, System: sys,
		Authorize: func(community.Peer, community.Call) error { return nil }}
	for _, f := range tune {
		f(&cfg)
	}
	h.Community = community.New(cfg)
	h.done.Go(func() {
		if err := h.Run(ctx); err != nil {
			t.Errorf("%s ended with %v", name, err)
		}
		if err := sys.Shutdown(context.Background()); err != nil {
			t.Errorf("the actors of %s ended with %v", name, err)
		}
	})
	t.Cleanup(h.leave)
	return h
}

// inBubble is the limit of a wait in a bubble.
func inBubble() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

func (h *home) leave() {
	h.stop()
	h.done.Wait()
}

func (s *station) live(name string, tune ...func(*community.Config)) *home {
	s.lan.t.Helper()
	h := live(s.lan.t, s.ID, name, s.Network, tune...)
	h.limit = inBubble
	return h
}

// sees waits until a change makes want true of the members.
func (h *home) sees(what string, want func([]community.Member) bool) {
	h.t.Helper()
	ctx, cancel := h.limit()
	defer cancel()
	sub := h.Subscribe()
	defer sub.Close()
	for !want(h.Members()) {
		if _, err := sub.Next(ctx); err != nil {
			h.t.Fatalf("not seen: %s (%v); members: %+v; nodes: %+v", what, err, h.Members(), h.network.Nodes())
		}
	}
}

func (h *home) finds(id community.NodeID) {
	h.t.Helper()
	h.sees("node "+string(id), func(all []community.Member) bool { return available(all, id) })
}

func available(all []community.Member, id community.NodeID) bool {
	return slices.ContainsFunc(all, func(m community.Member) bool { return m.ID == community.MemberID(id) && m.Available })
}

// status returns what the network says of a node, or of whoever is in a state when id is "".
func (h *home) status(id community.NodeID, state grpcpeer.State) (grpcpeer.NodeStatus, bool) {
	for _, s := range h.network.Nodes() {
		if (id == "" || s.ID == id) && s.State == state {
			return s, true
		}
	}
	return grpcpeer.NodeStatus{}, false
}

// offers makes h answer a capability.
func (h *home) offers(name string, f community.Provider) {
	h.t.Helper()
	if err := h.Offer(community.Capability{Name: name}, f); err != nil {
		h.t.Fatal(err)
	}
}

func echo(_ context.Context, s community.Signal) (community.Reply, error) {
	return community.Reply{Data: s.Data, ContentType: s.ContentType}, nil
}

// stuck answers when its context ends.
func stuck(ctx context.Context, _ community.Signal) (community.Reply, error) {
	<-ctx.Done()
	return community.Reply{}, ctx.Err()
}

// client speaks to a server as the identity does, without a Network in between.
func client(t testing.TB, as *identity.Identity, dial func(context.Context) (net.Conn, error), opts ...grpc.DialOption) pb.PeerClient {
	t.Helper()
	cc, err := grpc.NewClient("passthrough:///peer", append([]grpc.DialOption{
		grpc.WithTransportCredentials(credentials.NewTLS(as.ClientTLS(""))),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(1 << 30)),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return pb.NewPeerClient(cc)
}

// liar is a node that says what a test wants.
type liar struct {
	pb.UnimplementedPeerServer
	describe *pb.NodeDescriptor
	events   []*pb.CatalogEvent
	invoke   func(context.Context, *pb.InvokeRequest) (*pb.InvokeReply, error)
	each     func() *pb.CatalogEvent // second; nil = nothing
}

func (l *liar) Describe(context.Context, *pb.DescribeRequest) (*pb.NodeDescriptor, error) {
	return l.describe, nil
}

func (l *liar) Watch(_ *pb.WatchRequest, s grpc.ServerStreamingServer[pb.CatalogEvent]) error {
	for _, e := range l.events {
		if err := s.Send(e); err != nil {
			return err
		}
	}
	beat := time.NewTicker(time.Second)
	defer beat.Stop()
	for {
		select {
		case <-s.Context().Done():
			return nil
		case <-beat.C:
		}
		if l.each == nil {
			continue
		}
		if err := s.Send(l.each()); err != nil {
			return err
		}
	}
}

func (l *liar) Invoke(ctx context.Context, r *pb.InvokeRequest) (*pb.InvokeReply, error) {
	if l.invoke == nil {
		return nil, errors.ErrUnsupported
	}
	return l.invoke(ctx, r)
}

// Link answers calls as Invoke does.
func (l *liar) Link(s grpc.BidiStreamingServer[pb.Frame, pb.Frame]) error {
	var answering sync.WaitGroup
	defer answering.Wait()
	var mu sync.Mutex
	for {
		f, err := s.Recv()
		if err != nil {
			return err
		}
		for _, c := range f.GetCalls() {
			answering.Go(func() {
				a := &pb.Answer{Id: c.GetId()}
				r, err := l.Invoke(s.Context(), c.GetRequest())
				if a.Payload, a.ContentType = r.GetPayload(), r.GetContentType(); err != nil {
					a.Failure = &pb.Failure{Code: uint32(status.Code(err))}
				}
				mu.Lock()
				defer mu.Unlock()
				_ = s.Send(&pb.Frame{Answers: []*pb.Answer{a}})
			})
		}
	}
}

// lies puts a liar with the identity of name on the lan and returns its station, which has no Network.
func (l *lan) lies(name string, serve func(*identity.Identity) *liar) *station {
	l.t.Helper()
	id := l.identity(name)
	return l.serves(id, serve(id))
}

func (l *lan) serves(id *identity.Identity, p pb.PeerServer) *station {
	return l.servesTLS(id, id.ServerTLS(), p)
}

func (l *lan) servesTLS(id *identity.Identity, cfg *tls.Config, p pb.PeerServer) *station {
	s := &station{l.Listen(id.ID()), l, id}
	g := grpc.NewServer(grpc.Creds(credentials.NewTLS(cfg)))
	pb.RegisterPeerServer(g, p)
	var wg sync.WaitGroup
	wg.Go(func() { _ = g.Serve(s.Listener) })
	l.t.Cleanup(func() { g.Stop(); wg.Wait() })
	return s
}

// honest describes a node as it should be.
func honest(id *identity.Identity) *pb.NodeDescriptor {
	return &pb.NodeDescriptor{Id: string(id.ID()), Name: "liar", Protocol: &pb.Version{Major: 1}}
}

// hintOf is what discovery would say of a home on a real socket.
func hintOf(h *home) discovery.Candidate {
	return discovery.Candidate{Key: string(h.id), Node: string(h.id),
		Addrs: []netip.AddrPort{netip.MustParseAddrPort(h.network.Addr().String())}}
}
