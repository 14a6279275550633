package grpcpeer

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"path/filepath"

	"golang.org/x/time/rate"
	"symbio/community"
	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

const someNode = community.NodeID("0123456789abcdef0123456789abcdef")

// desk is a server with a community behind it and a context as a proven caller has.
func desk(t testing.TB) (*server, context.Context) {
	t.Helper()
	a, err := identity.OpenLocalAuthority(filepath.Join(t.TempDir(), "authority"))
	if err != nil {
		t.Fatal(err)
	}
	k, err := identity.LoadOrCreateKey(filepath.Join(t.TempDir(), "node", "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	id, err := a.Issue(k)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Identity: id, Name: "desk"}
	cfg.fill()
	c := community.New(community.Config{Node: id.ID(), Authorize: func(community.Peer, community.Call) error { return nil }, CallRate: rate.Inf})
	if err := c.Offer(community.Capability{Name: "echo"}, func(_ context.Context, s community.Signal) (community.Reply, error) {
		return community.Reply{Data: s.Data}, nil
	}); err != nil {
		t.Fatal(err)
	}
	ctx := peer.NewContext(context.Background(), &peer.Peer{Addr: &net.TCPAddr{}, AuthInfo: proof{who: &caller{Peer: identity.Peer{ID: someNode}}}})
	return &server{cfg: cfg, host: c, leaving: context.Background(), hear: func(community.NodeID, *pb.Revocations) {},
		twin: func(context.Context, *caller, *pb.Run) error { return nil }, run: id.NewRun()}, ctx
}

// feed makes seeds of messages: whole, cut off, and nothing.
func feed(f *testing.F, messages ...proto.Message) {
	f.Helper()
	f.Add([]byte{})
	for _, m := range messages {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
}

func FuzzInvokeRequest(f *testing.F) {
	feed(f, &pb.InvokeRequest{}, &pb.InvokeRequest{CallId: "1", Capability: "echo", Payload: []byte("x"), Requester: []string{"a", "b"},
		Deadline: durationpb.New(time.Second)}, &pb.InvokeRequest{Member: string(someNode), Capability: "agent.perception.work"},
		&pb.InvokeRequest{Capability: "echo", Deadline: &durationpb.Duration{Seconds: -1 << 63, Nanos: -1}})
	s, ctx := desk(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pb.InvokeRequest
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		_, err := s.Invoke(ctx, &m)
		if err != nil {
			_ = fromWire(err)
		}
	})
}

func FuzzDescribeRequest(f *testing.F) {
	feed(f, &pb.DescribeRequest{}, &pb.DescribeRequest{Name: "x\x1b[31m", Protocol: &pb.Version{Major: 1}})
	s, ctx := desk(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pb.DescribeRequest
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		if _, err := s.Describe(ctx, &m); err != nil {
			t.Errorf("describe: %v", err)
		}
		who, _ := callerOf(ctx)
		if name := who.peer().Name; len(name) > 3*nameSize || strings.ContainsAny(name, "\x1b\n\x00") {
			t.Errorf("a caller is called %q", name)
		}
	})
}

func FuzzCatalogEvent(f *testing.F) {
	member := &pb.Member{Id: "ffffffffffffffffffffffffffffffff", Name: "m", Node: string(someNode), Accepts: []string{"work"}, Available: true,
		Metadata: map[string]string{"a": "b"}}
	feed(f, &pb.CatalogEvent{}, &pb.CatalogEvent{Event: &pb.CatalogEvent_Snapshot{Snapshot: &pb.Catalog{Members: []*pb.Member{member, {}},
		Capabilities: []*pb.Capability{{Name: "c", InputSchema: []byte(`{}`)}, {}}}}},
		&pb.CatalogEvent{Event: &pb.CatalogEvent_Joined{Joined: member}}, &pb.CatalogEvent{Event: &pb.CatalogEvent_Updated{Updated: member}},
		&pb.CatalogEvent{Event: &pb.CatalogEvent_Left{Left: member.Id}}, &pb.CatalogEvent{Event: &pb.CatalogEvent_Heartbeat{}},
		&pb.CatalogEvent{Event: &pb.CatalogEvent_Goodbye{Goodbye: &pb.Goodbye{Reason: "x\x00"}}},
		&pb.CatalogEvent{Event: &pb.CatalogEvent_Snapshot{}}, &pb.CatalogEvent{Event: &pb.CatalogEvent_Revocations{}}, &pb.CatalogEvent{Event: &pb.CatalogEvent_Joined{}})
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pb.CatalogEvent
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		c := community.New(community.Config{})
		told := census{lease: c.Attach(community.Peer{ID: someNode, Name: "n"}), members: map[community.MemberID]struct{}{}, heard: func(*pb.Revocations) {}, alarmed: func(*pb.Run) {}}
		_ = told.apply(&m)
		for _, m := range c.Members() {
			if m.Node != someNode {
				t.Errorf("a member of another node was taken: %+v", m)
			}
		}
	})
}

func FuzzNodeDescriptor(f *testing.F) {
	feed(f, &pb.NodeDescriptor{}, &pb.NodeDescriptor{Id: string(someNode), Name: "n", Protocol: &pb.Version{Major: 1}, Catalog: &pb.Catalog{}})
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pb.NodeDescriptor
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		l := &link{client: says{d: &m}, peer: community.Peer{ID: someNode}, heard: func(community.NodeID, *pb.Revocations) {}}
		err := l.describe(context.Background(), &pb.DescribeRequest{Protocol: &pb.Version{Major: 1}})
		if err == nil && (m.GetId() != string(someNode) || m.GetProtocol().GetMajor() != 1) {
			t.Errorf("%v was taken for node %s", &m, someNode)
		}
	})
}

func FuzzInvokeReply(f *testing.F) {
	feed(f, &pb.InvokeReply{}, &pb.InvokeReply{Payload: []byte("x"), ContentType: "text/plain"})
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pb.InvokeReply
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		l := &link{client: says{r: &m}, limits: Limits{Message: 64}, slots: make(chan struct{}, 1)}
		r, err := l.invoke(context.Background(), community.Call{})
		if (err == nil) != (len(m.Payload) <= 64) || len(r.Data) > 64 {
			t.Errorf("%d bytes with a limit of 64: got %d, %v", len(m.Payload), len(r.Data), err)
		}
	})
}

// says is a client whose server answers what the test wants.
type says struct {
	pb.PeerClient
	d *pb.NodeDescriptor
	r *pb.InvokeReply
}

func (s says) Describe(context.Context, *pb.DescribeRequest, ...grpc.CallOption) (*pb.NodeDescriptor, error) {
	return s.d, nil
}

func (s says) Invoke(context.Context, *pb.InvokeRequest, ...grpc.CallOption) (*pb.InvokeReply, error) {
	return s.r, nil
}

// ears is a server stream that takes what is sent.
type ears struct {
	grpc.ServerStream
	ctx context.Context
}

func (e ears) Context() context.Context     { return e.ctx }
func (e ears) Send(*pb.CatalogEvent) error  { return nil }
func (e ears) SetHeader(metadata.MD) error  { return nil }
func (e ears) SendHeader(metadata.MD) error { return nil }
func (e ears) SetTrailer(metadata.MD)       {}
func (e ears) SendMsg(any) error            { return nil }
func (e ears) RecvMsg(any) error            { return nil }

func TestMessagesWithoutContentsAreNoPanic(t *testing.T) {
	s, ctx := desk(t)
	if _, err := s.Invoke(ctx, nil); err == nil {
		t.Error("an absent request was served")
	}
	if _, err := s.Describe(ctx, nil); err != nil {
		t.Errorf("describe for an absent request: %v", err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.Watch(nil, ears{ctx: gone}); err != nil {
		t.Errorf("a watcher that is gone: %v", err)
	}
	// A call that did not come through the handshake is of nobody.
	for name, nobody := range map[string]context.Context{
		"no peer":  context.Background(),
		"no proof": peer.NewContext(context.Background(), &peer.Peer{Addr: &net.TCPAddr{}}),
		"empty":    peer.NewContext(context.Background(), &peer.Peer{AuthInfo: proof{}}),
	} {
		if _, err := s.Invoke(nobody, &pb.InvokeRequest{Capability: "echo"}); err == nil {
			t.Errorf("%s: invoke was served", name)
		}
		if _, err := s.Describe(nobody, &pb.DescribeRequest{}); err == nil {
			t.Errorf("%s: describe was served", name)
		}
		if err := s.Watch(nil, ears{ctx: nobody}); err == nil {
			t.Errorf("%s: watch was served", name)
		}
	}
	for _, m := range []*pb.Catalog{nil, {}, {Members: []*pb.Member{nil}, Capabilities: []*pb.Capability{nil}}} {
		_ = catalogFrom(m)
	}
}
