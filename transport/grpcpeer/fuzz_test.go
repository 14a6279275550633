package grpcpeer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"slices"
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
	return &server{cfg: cfg, host: c, leaving: context.Background(), hear: func(community.NodeID, ...*pb.Revocations) {},
		twin: func(context.Context, *caller, *pb.Run) error { return nil }, run: id.NewRun(),
		called: func(*caller, uint32) {}, news: func(*caller) *news { return &news{at: time.Now().Add(time.Hour)} }}, ctx
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
	feed(f, &pb.DescribeRequest{}, &pb.DescribeRequest{Port: 1 << 31}, &pb.DescribeRequest{Name: "x\x1b[31m", Protocol: &pb.Version{Major: 1}})
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
		&pb.CatalogEvent{Event: &pb.CatalogEvent_Unlinked{}}, &pb.CatalogEvent{Event: &pb.CatalogEvent_Introductions{}},
		&pb.CatalogEvent{Event: &pb.CatalogEvent_Introductions{Introductions: presents(someID(2), "10.0.0.1:1")}},
		&pb.CatalogEvent{Event: &pb.CatalogEvent_Snapshot{}}, &pb.CatalogEvent{Event: &pb.CatalogEvent_Revocations{}}, &pb.CatalogEvent{Event: &pb.CatalogEvent_Joined{}})
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pb.CatalogEvent
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		c := community.New(community.Config{})
		told := census{lease: c.Attach(community.Peer{ID: someNode, Name: "n"}), members: map[community.MemberID]struct{}{}, heard: func(*pb.Revocations) {}, alarmed: func(*pb.Run) {}, unlinked: make(chan struct{}, 1),
			introduced: func(said *pb.Introductions) { newIntroduced(someID(0)).hear(from(1, ""), said) }}
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
		l := &link{client: says{d: &m}, peer: community.Peer{ID: someNode}, heard: func(community.NodeID, ...*pb.Revocations) {}}
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

func FuzzInvokeEvent(f *testing.F) {
	feed(f, &pb.InvokeEvent{}, &pb.InvokeEvent{Missed: 1, Event: &pb.InvokeEvent_Progress{Progress: &pb.Progress{Message: "x", Done: 1, Total: 2}}},
		&pb.InvokeEvent{Event: &pb.InvokeEvent_Chunk{Chunk: &pb.Chunk{Data: []byte("x"), ContentType: "text/plain"}}},
		&pb.InvokeEvent{Event: &pb.InvokeEvent_Reply{Reply: &pb.InvokeReply{Payload: []byte("x")}}})
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pb.InvokeEvent
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		heard := 0
		l := &link{client: says{e: &m}, limits: Limits{Message: 64}, slots: make(chan struct{}, 1), streams: true}
		r, err := l.invoke(context.Background(), community.Call{Listen: func(u community.Update) {
			heard++
			if (u.Output != nil) != (m.GetChunk() != nil) {
				t.Errorf("%v was heard as %+v", &m, u)
			}
		}})
		answered := m.GetReply() != nil
		if (err == nil) != (answered && len(r.Data) == len(m.GetReply().GetPayload())) || answered == (heard == 1) || heard > 1 {
			t.Errorf("%v: got %d updates, %d bytes, %v", &m, heard, len(r.Data), err)
		}
	})
}

// once is a stream of one event.
type once struct {
	grpc.ServerStreamingClient[pb.InvokeEvent]
	e *pb.InvokeEvent
}

func (o *once) Recv() (*pb.InvokeEvent, error) {
	e := o.e
	if o.e = nil; e == nil {
		return nil, io.EOF
	}
	return e, nil
}

// says is a client whose server answers what the test wants.
type says struct {
	pb.PeerClient
	d *pb.NodeDescriptor
	r *pb.InvokeReply
	e *pb.InvokeEvent
}

func (s says) InvokeStream(context.Context, *pb.InvokeRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[pb.InvokeEvent], error) {
	return &once{e: s.e}, nil
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
func (e tongue) Send(*pb.InvokeEvent) error { return nil }
func (e ears) SetHeader(metadata.MD) error  { return nil }
func (e ears) SendHeader(metadata.MD) error { return nil }
func (e ears) SetTrailer(metadata.MD)       {}
func (e ears) SendMsg(any) error            { return nil }
func (e ears) RecvMsg(any) error            { return nil }

// tongue is ears for updates of a call.
type tongue struct{ ears }

func TestMessagesWithoutContentsAreNoPanic(t *testing.T) {
	s, ctx := desk(t)
	if _, err := s.Invoke(ctx, nil); err == nil {
		t.Error("an absent request was served")
	}
	if _, err := s.Describe(ctx, nil); err != nil {
		t.Errorf("describe for an absent request: %v", err)
	}
	if err := s.InvokeStream(nil, tongue{ears{ctx: ctx}}); err == nil {
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
		"empty":    peer.NewContext(context.Background(), &peer.Peer{AuthInfo: proof{}}),
	} {
		if _, err := s.Invoke(nobody, &pb.InvokeRequest{Capability: "echo"}); err == nil {
			t.Errorf("%s: invoke was served", name)
		}
		if err := s.InvokeStream(&pb.InvokeRequest{Capability: "echo"}, tongue{ears{ctx: nobody}}); err == nil {
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

// A frame means what protobuf says it means, however long its payloads are.
func FuzzFrameCodec(f *testing.F) {
	payload := bytes.Repeat([]byte("x"), long)
	request := &pb.InvokeRequest{CallId: "1", Capability: "echo", Payload: payload, Requester: []string{"a"}, Deadline: durationpb.New(time.Second)}
	feed(f, &pb.Frame{Open: &pb.Open{Bulk: true}, Cancels: []uint64{1}, Calls: []*pb.Call{{Id: 300, Request: request}, {Id: 2}}},
		&pb.Frame{Answers: []*pb.Answer{{Id: 1 << 40, Payload: payload, ContentType: "x"}, {Failure: &pb.Failure{Code: 5}}}})
	c := newCodec()
	c.long = long
	f.Fuzz(func(t *testing.T, b []byte) {
		var want, got pb.Frame
		wantErr, gotErr := proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(b, &want), c.decode(b, &got)
		if (wantErr == nil) != (gotErr == nil) && !errors.Is(gotErr, errEntries) {
			t.Fatalf("got %v, protobuf says %v", gotErr, wantErr)
		}
		if wantErr != nil || gotErr != nil {
			return
		}
		inOrder(&want)
		inOrder(&got)
		if !proto.Equal(&want, &got) {
			t.Fatalf("got %v, want %v", &got, &want)
		}
		sent, err := c.Marshal(&want)
		if err != nil {
			t.Fatal(err)
		}
		if again := new(pb.Frame); proto.Unmarshal(sent.Materialize(), again) != nil || !proto.Equal(&want, again) {
			t.Fatalf("sent %v, protobuf reads %v", &want, again)
		}
		var back pb.Frame
		if err := c.Unmarshal(sent, &back); err != nil {
			t.Fatal(err)
		}
		inOrder(&back)
		if !proto.Equal(&want, &back) {
			t.Fatalf("sent %v, read %v", &want, &back)
		}
	})
}

// long is a payload worth the trouble here, so that fuzzing has short ones.
const long = 16

func encoded(m proto.Message) []byte {
	b, _ := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	return b
}

// inOrder sorts entries, whose order is nothing.
func inOrder(f *pb.Frame) {
	slices.SortFunc(f.Calls, func(a, b *pb.Call) int { return bytes.Compare(encoded(a), encoded(b)) })
	slices.SortFunc(f.Answers, func(a, b *pb.Answer) int { return bytes.Compare(encoded(a), encoded(b)) })
}

// FuzzFrame gives a server whatever frames a proven node may send.
func FuzzFrame(f *testing.F) {
	call := func(id uint64, capability string) *pb.Call {
		return &pb.Call{Id: id, Request: &pb.InvokeRequest{Capability: capability, Payload: []byte("x"), Deadline: durationpb.New(time.Second)}}
	}
	feed(f, &pb.Frame{}, &pb.Frame{Open: &pb.Open{Bulk: true, MaxMessage: 1 << 63}, Calls: []*pb.Call{call(1, "echo"), call(2, "")}, Cancels: []uint64{1, 9}},
		&pb.Frame{Calls: []*pb.Call{call(1, "echo"), call(1, "echo"), {}, {Id: 3}}}, &pb.Frame{Answers: []*pb.Answer{{Id: 1}}})
	s, ctx := desk(f)
	s.cfg.Limits.Streams = 16
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pb.Frame
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		who, _ := callerOf(ctx)
		own := &caller{Peer: who.Peer}
		in := &frames{ctx: peer.NewContext(context.Background(), &peer.Peer{AuthInfo: proof{who: own}}), in: []*pb.Frame{&m}}
		_ = s.Link(in)
		if own.calls.Load() != 0 || own.lanes.all != [lanes]*outbox{} {
			t.Errorf("after the end %d calls and lanes %v are left", own.calls.Load(), own.lanes.all)
		}
		answered := map[uint64]int{}
		for _, a := range in.out {
			if answered[a.GetId()]++; answered[a.GetId()] > len(m.Calls) {
				t.Errorf("call %d of %v was answered too often", a.GetId(), &m)
			}
		}
	})
}

// FuzzAnswers gives a caller whatever frames a node may answer with.
func FuzzAnswers(f *testing.F) {
	feed(f, &pb.Frame{}, &pb.Frame{Answers: []*pb.Answer{{Id: 1, Payload: []byte("x")}, {Id: 1}, {Id: 2}}},
		&pb.Frame{Answers: []*pb.Answer{{Id: 1, Failure: &pb.Failure{Code: 1 << 31, Reason: "BUSY", Explanation: "x\x1b"}}}},
		&pb.Frame{Answers: []*pb.Answer{{Id: 1, Payload: make([]byte, 100)}}})
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pb.Frame
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		answer := make(chan *pb.Answer, 1)
		p := &fastpath{waiting: map[uint64]chan *pb.Answer{1: answer}}
		p.deliver(m.GetAnswers())
		select {
		case a := <-answer:
			l := &link{limits: Limits{Message: 64}}
			if r, err := l.read(a); err == nil && len(r.Data) > 64 || err != nil && strings.ContainsRune(err.Error(), 0x1b) {
				t.Errorf("got %d bytes, %q", len(r.Data), err)
			}
		default:
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
