package grpcpeer

import (
	"context"
	"fmt"
	"io"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"path/filepath"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
	"symbio/transport/grpcpeer/internal/calls"
	"symbio/transport/grpcpeer/internal/introduced"
)

// someID is a node's id.
func someID(i int) community.NodeID { return community.NodeID(fmt.Sprintf("%032x", i)) }

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
	c := community.New(community.Config{Node: id.ID(), Authorize: func(community.Peer, community.Call) error { return nil }})
	if err := c.Offer(community.Capability{Name: "echo"}, func(_ context.Context, s community.Signal) (community.Reply, error) {
		return community.Reply{Data: s.Data}, nil
	}); err != nil {
		t.Fatal(err)
	}
	ctx := peer.NewContext(context.Background(), &peer.Peer{Addr: &net.TCPAddr{}, AuthInfo: verifiedInfo{caller: &caller{Peer: identity.Peer{ID: someNode}}}})
	n := &local{cfg: cfg, run: id.NewRun(), links: newLinks(id.ID()), introduced: introduced.New(id.ID()), life: newLifetime()}
	s := newServer(n, &duplicates{local: n}, &renewal{local: n}, newCandidates(n, nil))
	s.Host = c
	return s, ctx
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
			_ = calls.FromStatus(err)
		}
	})
}

func FuzzDescribeRequest(f *testing.F) {
	feed(f, &pb.DescribeRequest{}, &pb.DescribeRequest{Port: 1 << 31},
		&pb.DescribeRequest{Name: "x\x1b[31m", Protocol: &pb.Version{Major: 1}})
	s, ctx := desk(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pb.DescribeRequest
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		if _, err := s.Describe(ctx, &m); err != nil {
			t.Errorf("describe: %v", err)
		}
		remote, _ := callerOf(ctx)
		if name := remote.From().Name; len(name) > 3*maxName || strings.ContainsAny(name, "\x1b\n\x00") {
			t.Errorf("a caller is called %q", name)
		}
	})
}

func FuzzCatalogEvent(f *testing.F) {
	member := &pb.Member{Id: "ffffffffffffffffffffffffffffffff", Name: "m", Node: string(someNode), Accepts: []string{"work"},
		Available: true,
		Metadata:  map[string]string{"a": "b"}}
	feed(f, &pb.CatalogEvent{}, &pb.CatalogEvent{Event: &pb.CatalogEvent_Snapshot{Snapshot: &pb.Catalog{Members: []*pb.Member{member, {}},
		Capabilities: []*pb.Capability{{Name: "c", InputSchema: []byte(`{}`)}, {}}}}},
		&pb.CatalogEvent{Event: &pb.CatalogEvent_Joined{Joined: member}},
		&pb.CatalogEvent{Event: &pb.CatalogEvent_Updated{Updated: member}},
		&pb.CatalogEvent{Event: &pb.CatalogEvent_Left{Left: member.Id}}, &pb.CatalogEvent{Event: &pb.CatalogEvent_Heartbeat{}},
		&pb.CatalogEvent{Event: &pb.CatalogEvent_Goodbye{Goodbye: &pb.Goodbye{Reason: "x\x00"}}},
		&pb.CatalogEvent{Event: &pb.CatalogEvent_Unlinked{}}, &pb.CatalogEvent{Event: &pb.CatalogEvent_Introductions{}},
		&pb.CatalogEvent{Event: &pb.CatalogEvent_Introductions{Introductions: &pb.Introductions{Nodes: []*pb.Introduction{{Id: string(someID(2)), Addrs: []string{"10.0.0.1:1"}}}}}},
		&pb.CatalogEvent{Event: &pb.CatalogEvent_Snapshot{}}, &pb.CatalogEvent{Event: &pb.CatalogEvent_Revocations{}},
		&pb.CatalogEvent{Event: &pb.CatalogEvent_Joined{}})
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pb.CatalogEvent
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		c := community.New(community.Config{})
		l := &link{peer: community.Peer{ID: someNode, Name: "n"}, events: linkEvents{func(community.NodeID, ...*pb.Revocations) {}, func(community.NodeID, *pb.Standing) {}, func(*pb.Run) {}, introduced.New(someID(0)).Add, nil},
			unlinked: make(chan struct{}, 1)}
		announced := announcements{link: l, lease: c.Attach(l.peer), members: map[community.MemberID]struct{}{}}
		_ = announced.apply(&m)
		for _, m := range c.Members() {
			if m.Node != someNode {
				t.Errorf("a member of another node was taken: %+v", m)
			}
		}
	})
}

func FuzzNodeDescriptor(f *testing.F) {
	feed(f, &pb.NodeDescriptor{}, &pb.NodeDescriptor{Id: string(someNode), Name: "n", Protocol: &pb.Version{Major: 1},
		Catalog: &pb.Catalog{}})
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pb.NodeDescriptor
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		l := &link{wire: linkWire{client: says{d: &m}}, peer: community.Peer{ID: someNode}, events: linkEvents{revocations: func(community.NodeID, ...*pb.Revocations) {}, standing: func(community.NodeID, *pb.Standing) {}}}
		err := l.describe(context.Background(), &pb.DescribeRequest{Protocol: &pb.Version{Major: 1}})
		if err == nil && (m.GetId() != string(someNode) || m.GetProtocol().GetMajor() != 1) {
			t.Errorf("%v was taken for node %s", &m, someNode)
		}
		if l.calls != nil {
			l.calls.Close()
		}
	})
}

// says is a client whose server answers what the test wants.
type says struct {
	pb.PeerClient
	d *pb.NodeDescriptor
}

func (s says) Link(ctx context.Context, _ ...grpc.CallOption) (grpc.BidiStreamingClient[pb.Frame, pb.Frame], error) {
	return quietLink{ctx: ctx}, nil
}

// quietLink is a Link stream on which nothing happens.
type quietLink struct {
	grpc.BidiStreamingClient[pb.Frame, pb.Frame]
	ctx context.Context
}

func (q quietLink) Send(*pb.Frame) error { return nil }

func (q quietLink) Recv() (*pb.Frame, error) {
	<-q.ctx.Done()
	return nil, q.ctx.Err()
}

func (s says) Describe(context.Context, *pb.DescribeRequest, ...grpc.CallOption) (*pb.NodeDescriptor, error) {
	return s.d, nil
}

// ears is a server stream that takes what is sent.
type ears struct {
	grpc.ServerStream
	ctx context.Context
}

func (e ears) Context() context.Context     { return e.ctx }
func (e ears) Send(*pb.CatalogEvent) error  { return nil }
func (e tongue) Send(*pb.InvokeEvent) error { return nil }
func (e ears) SetHeader(metadata.MD) error  { return nil }
func (e ears) SendHeader(metadata.MD) error { return nil }
func (e ears) SetTrailer(metadata.MD)       {}
func (e ears) SendMsg(any) error            { return nil }
func (e ears) RecvMsg(any) error            { return nil }

// tongue is ears for updates of a call, whose request is empty.
type tongue struct{ ears }

func (e tongue) Recv() (*pb.InvokeRequest, error) { return nil, nil }

func TestEmptyMessagesDoNotPanic(t *testing.T) {
	s, ctx := desk(t)
	if _, err := s.Invoke(ctx, nil); err == nil {
		t.Error("an absent request was served")
	}
	if _, err := s.Describe(ctx, nil); err != nil {
		t.Errorf("describe for an absent request: %v", err)
	}
	if err := s.InvokeStream(tongue{ears{ctx: ctx}}); err == nil {
		t.Error("an absent request was served to a listener")
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
		"empty":    peer.NewContext(context.Background(), &peer.Peer{AuthInfo: verifiedInfo{}}),
	} {
		if _, err := s.Invoke(nobody, &pb.InvokeRequest{Capability: "echo"}); err == nil {
			t.Errorf("%s: invoke was served", name)
		}
		if err := s.InvokeStream(tongue{ears{ctx: nobody}}); err == nil {
			t.Errorf("%s: invoke was served to a listener", name)
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

// FuzzFrame gives a server whatever frames a proven node may send.
func FuzzFrame(f *testing.F) {
	call := func(id uint64, capability string) *pb.Call {
		return &pb.Call{Id: id, Request: &pb.InvokeRequest{Capability: capability, Payload: []byte("x"),
			Deadline: durationpb.New(time.Second)}}
	}
	feed(f, &pb.Frame{}, &pb.Frame{Open: &pb.Open{Bulk: true, MaxMessage: 1 << 63}, Calls: []*pb.Call{call(1, "echo"), call(2, "")},
		Cancels: []uint64{1, 9}},
		&pb.Frame{Calls: []*pb.Call{call(1, "echo"), call(1, "echo"), {}, {Id: 3}}}, &pb.Frame{Answers: []*pb.Answer{{Id: 1}}})
	s, ctx := desk(f)
	s.MaxCalls = 16
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pb.Frame
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		remote, _ := callerOf(ctx)
		own := &caller{Peer: remote.Peer}
		stream := &frames{ctx: peer.NewContext(context.Background(), &peer.Peer{AuthInfo: verifiedInfo{caller: own}}), in: []*pb.Frame{&m}}
		_ = s.Link(stream)
		if !reflect.ValueOf(&own.calls).Elem().IsZero() {
			t.Errorf("after the end %+v is left", &own.calls)
		}
		answered := map[uint64]int{}
		for _, a := range stream.out {
			if answered[a.GetId()]++; answered[a.GetId()] > len(m.Calls) {
				t.Errorf("call %d of %v was answered too often", a.GetId(), &m)
			}
		}
	})
}

// frames is a Link stream that a test fills.
type frames struct {
	ears
	ctx context.Context
	in  []*pb.Frame
	mu  sync.Mutex
	out []*pb.Answer // guarded by mu
}

func (s *frames) Context() context.Context { return s.ctx }

func (s *frames) Recv() (*pb.Frame, error) {
	if len(s.in) == 0 {
		return nil, io.EOF
	}
	defer func() { s.in = s.in[1:] }()
	return s.in[0], nil
}

func (s *frames) Send(f *pb.Frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = append(s.out, f.GetAnswers()...)
	return nil
}
