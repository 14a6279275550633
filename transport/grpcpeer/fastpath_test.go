package grpcpeer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
	"symbio/transport/grpcpeer"
)

// lane is a Link stream without a Network around it.
type lane struct {
	t *testing.T
	pb.Peer_LinkClient
}

func openLane(t *testing.T, c pb.PeerClient, open *pb.Open) lane {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	s, err := c.Link(ctx)
	if err != nil {
		t.Fatal(err)
	}
	l := lane{t, s}
	l.send(&pb.Frame{Open: open})
	synctest.Wait() // lanes of a kind are let in in the order in which they come
	return l
}

func (l lane) send(f *pb.Frame) {
	l.t.Helper()
	if err := l.Send(f); err != nil {
		l.t.Fatal(err)
	}
}

func (l lane) call(id uint64, capability string, payload ...byte) {
	l.t.Helper()
	l.send(&pb.Frame{Calls: []*pb.Call{{Id: id, Request: &pb.InvokeRequest{Capability: capability, Payload: payload}}}})
}

// answers returns the next answers, by id.
func (l lane) answers(n int) map[uint64]*pb.Answer {
	l.t.Helper()
	all := map[uint64]*pb.Answer{}
	for len(all) < n {
		f, err := l.Recv()
		if err != nil {
			l.t.Fatalf("after %d of %d answers: %v", len(all), n, err)
		}
		for _, a := range f.GetAnswers() {
			if all[a.GetId()] != nil {
				l.t.Fatalf("call %d was answered twice", a.GetId())
			}
			all[a.GetId()] = a
		}
	}
	return all
}

// serving is a node whose Link streams a test opens itself.
func serving(t *testing.T, tune ...func(*grpcpeer.Config)) (*home, pb.PeerClient) {
	t.Helper()
	l := newLAN(t)
	s := l.add("a", tune...)
	h := s.live("a")
	h.offers("echo", echo)
	h.offers("stuck", stuck)
	return h, client(t, l.identity("rogue"), s.Listener.Dial)
}

func TestLinkAnswersEachCallOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, c := serving(t)
		h.offers("panics", func(context.Context, community.Signal) (community.Reply, error) { panic("secret") })
		h.offers("bad", func(context.Context, community.Signal) (community.Reply, error) {
			return community.Reply{ContentType: "\xff"}, nil
		})
		l := openLane(t, c, nil)
		var f pb.Frame
		for i, capability := range []string{"echo", "stuck", "panics", "nothing", "bad", "echo"} {
			f.Calls = append(f.Calls, &pb.Call{Id: uint64(i), Request: &pb.InvokeRequest{Capability: capability, Payload: []byte{byte(i)},
				Deadline: durationpb.New(time.Second)}})
		}
		f.Calls = append(f.Calls, &pb.Call{Id: 6})
		l.send(&f)
		all := l.answers(7)
		for id, want := range map[uint64]string{0: "", 1: "DEADLINE", 2: "AGENT_FAILED", 3: "NOT_PROVIDED", 4: "AGENT_FAILED", 5: "",
			6: "NOT_PROVIDED"} {
			a := all[id]
			if got := a.GetFailure().GetReason(); got != want {
				t.Errorf("call %d: got %q, want %q", id, got, want)
			}
			if want == "" && !bytes.Equal(a.GetPayload(), []byte{byte(id)}) {
				t.Errorf("call %d got the payload %v", id, a.GetPayload())
			}
		}
	})
}

func TestCancelReachesTheAgentAndIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := serving(t)
		l := openLane(t, c, nil)
		began := time.Now()
		l.call(1, "stuck")
		l.send(&pb.Frame{Calls: []*pb.Call{{Id: 2, Request: &pb.InvokeRequest{Capability: "stuck"}}}, Cancels: []uint64{1, 2, 3}})
		for id, a := range l.answers(2) {
			if got := a.GetFailure().GetReason(); got != "CANCELLED" {
				t.Errorf("call %d: got %q, want it cancelled", id, got)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("that took %v", took)
		}
	})
}

func TestCallsOverTheLimitOfALinkAreRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := serving(t, func(c *grpcpeer.Config) { c.Limits.Streams = 10 })
		l, other := openLane(t, c, nil), openLane(t, c, &pb.Open{Bulk: true})
		var f pb.Frame
		for id := range uint64(8) {
			f.Calls = append(f.Calls, &pb.Call{Id: id, Request: &pb.InvokeRequest{Capability: "stuck"}})
		}
		l.send(&f)
		synctest.Wait()
		for id := uint64(8); id < 13; id++ { // the lanes of a connection have one limit
			other.call(id, "stuck")
			synctest.Wait()
		}
		for id, a := range other.answers(3) {
			if got := a.GetFailure().GetReason(); got != "BUSY" || id < 10 {
				t.Errorf("call %d: got %q, want only 10 to 12, and busy", id, got)
			}
		}
		l.send(&pb.Frame{Cancels: []uint64{0, 1}})
		l.answers(2)
		other.call(13, "echo")
		if a := other.answers(1)[13]; a.GetFailure() != nil {
			t.Errorf("a call after others ended: got %v", a)
		}
	})
}

func TestLaneThatBreaksTheRulesEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := serving(t)
		l := openLane(t, c, nil)
		for range 2 {
			second := openLane(t, c, &pb.Open{})
			if _, err := second.Recv(); status.Code(err) != codes.ResourceExhausted {
				t.Errorf("a second lane of the kind: got %v", err)
			}
		}
		l.call(1, "stuck")
		l.call(1, "echo")
		_, err := l.Recv()
		if err == nil { // the first call's end may be heard before that of the lane
			_, err = l.Recv()
		}
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("two calls of one id: got %v", err)
		}
		again := openLane(t, c, nil)
		again.call(1, "echo")
		again.answers(1)
	})
}

func TestUnreadAnswersStopReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, c := serving(t)
		var served atomic.Int64
		h.offers("answer", func(context.Context, community.Signal) (community.Reply, error) {
			served.Add(1)
			return community.Reply{Data: make([]byte, 64<<10)}, nil
		})
		l := openLane(t, c, nil)
		go func() {
			for id := range uint64(100_000) { // 6 GiB of answers
				if l.Send(&pb.Frame{Calls: []*pb.Call{{Id: id, Request: &pb.InvokeRequest{Capability: "answer"}}}}) != nil {
					return
				}
			}
		}()
		time.Sleep(10 * time.Second)
		before := served.Load()
		if before > 200 || before < 10 {
			t.Errorf("%d calls were served whose answers nobody read, want a few windows full", before)
		}
		l.answers(1000) // it goes on when they are read, if only to refuse
	})
}

// linking is a liar with a Link of its own.
type linking struct {
	*liar
	link func(grpc.BidiStreamingServer[pb.Frame, pb.Frame]) error
}

func (l *linking) Link(s grpc.BidiStreamingServer[pb.Frame, pb.Frame]) error { return l.link(s) }

// lyingLink connects a home to a node whose Link is as given.
func lyingLink(t *testing.T, l *lan, link func(grpc.BidiStreamingServer[pb.Frame, pb.Frame]) error,
	tune ...func(*grpcpeer.Config)) (*home, community.NodeID) {
	t.Helper()
	sa := l.add("a", tune...)
	a := sa.live("a")
	id := l.identity("eve")
	events := []*pb.CatalogEvent{{Event: &pb.CatalogEvent_Snapshot{Snapshot: &pb.Catalog{}}}}
	for range 100 {
		events = append(events, &pb.CatalogEvent{Event: &pb.CatalogEvent_Heartbeat{}})
	}
	s := l.serves(id, &linking{&liar{describe: honest(id), events: events}, link})
	sa.Network.AddHint(s.Hint())
	synctest.Wait()
	return a, s.ID
}

func TestLostLaneFailsAllItsCallsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen events
		cut := make(chan bool)
		a, eve := lyingLink(t, newLAN(t), func(s grpc.BidiStreamingServer[pb.Frame, pb.Frame]) error {
			select {
			case <-cut: // a lane of a later link stays
				<-s.Context().Done()
			default:
			}
			if f, _ := s.Recv(); f.GetOpen().GetBulk() {
				<-s.Context().Done()
			}
			<-cut
			return nil
		}, reporting(&seen))
		var wg sync.WaitGroup
		for _, size := range []int{1, 1, 100_000} {
			wg.Go(func() {
				if _, err := a.network.Invoke(context.Background(), eve, community.Call{Payload: make([]byte, size)}); !errors.Is(err,
					community.ErrUnavailable) {
					t.Errorf("got %v, want %v", err, community.ErrUnavailable)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		close(cut)
		wg.Wait()
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("the calls failed after %v, want 100ms at the most", took)
		}
		time.Sleep(500 * time.Millisecond)
		if got := seen.count(grpcpeer.Lost); got != 1 {
			t.Errorf("%d links were lost, want the one whose lane ended", got)
		}
	})
}

func TestGoodbyeAfterLaneEndIsApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		var seen events
		sa := l.add("a", reporting(&seen))
		sa.live("a")
		id := l.identity("eve")
		bye := &pb.CatalogEvent{Event: &pb.CatalogEvent_Goodbye{Goodbye: &pb.Goodbye{Reason: "the node stops"}}}
		eve := &liar{describe: honest(id), events: []*pb.CatalogEvent{{Event: &pb.CatalogEvent_Snapshot{Snapshot: &pb.Catalog{}}}},
			each: func() *pb.CatalogEvent { return bye }}
		s := l.serves(id, &linking{eve, func(s grpc.BidiStreamingServer[pb.Frame, pb.Frame]) error {
			select {
			case <-time.After(900 * time.Millisecond): // and the goodbye comes at a second
			case <-s.Context().Done():
			}
			return nil
		}})
		sa.Network.AddHint(s.Hint())
		time.Sleep(1100 * time.Millisecond)
		if left, lost := seen.count(grpcpeer.Left), seen.count(grpcpeer.Lost); left != 1 || lost != 0 {
			t.Errorf("it left %d times, and was lost %d times; want that it left", left, lost)
		}
	})
}

func TestNodeWithoutLinkServiceIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen events
		l := newLAN(t)
		sa := l.add("a", reporting(&seen))
		a := sa.live("a")
		id := l.identity("eve")
		unlinked := func(grpc.BidiStreamingServer[pb.Frame, pb.Frame]) error { return status.Error(codes.Unimplemented, "") }
		sa.Network.AddHint(l.serves(id, &linking{&liar{describe: honest(id)}, unlinked}).Hint())
		time.Sleep(20 * time.Second)
		if s, ok := a.status("", grpcpeer.StateRefused); !ok || seen.count(grpcpeer.Refused) != 1 {
			t.Errorf("got %+v, %d refusals", s, seen.count(grpcpeer.Refused))
		}
	})
}

func TestUnrequestedAnswersAreIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, eve := lyingLink(t, newLAN(t), func(s grpc.BidiStreamingServer[pb.Frame, pb.Frame]) error {
			for {
				f, err := s.Recv()
				if err != nil {
					return err
				}
				answers := []*pb.Answer{nil, {Id: 0}, {Id: 99}}
				for _, c := range f.GetCalls() {
					for i := range 3 {
						answers = append(answers, &pb.Answer{Id: c.GetId(), Payload: []byte{byte(i)}})
					}
				}
				if err := s.Send(&pb.Frame{Answers: answers, Calls: []*pb.Call{{Id: 1}}, Cancels: []uint64{1}}); err != nil {
					return err
				}
			}
		})
		for range 10 {
			r, err := a.network.Invoke(context.Background(), eve, community.Call{})
			if err != nil || !bytes.Equal(r.Data, []byte{0}) {
				t.Fatalf("got %v, %v, want the first answer", r.Data, err)
			}
		}
	})
}

func TestAnswersThatFailAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := []*pb.Failure{{}, {Code: uint32(codes.NotFound)},
			{Code: uint32(codes.PermissionDenied), Reason: "DENIED", Explanation: "no\x1b[31m"},
			{Code: uint32(codes.Canceled), Reason: "CANCELLED"}, {Code: 99, Reason: "DENIED"}}
		wants := []error{community.ErrAgentFailed, community.ErrNotFound, community.ErrDenied, community.ErrUnavailable,
			community.ErrAgentFailed}
		a, eve := lyingLink(t, newLAN(t), func(s grpc.BidiStreamingServer[pb.Frame, pb.Frame]) error {
			for {
				f, err := s.Recv()
				if err != nil {
					return err
				}
				for _, c := range f.GetCalls() {
					i := c.GetRequest().GetPayload()[0]
					if err := s.Send(&pb.Frame{Answers: []*pb.Answer{{Id: c.GetId(), Failure: failures[i]}}}); err != nil {
						return err
					}
				}
			}
		})
		for i, want := range wants {
			_, err := a.network.Invoke(context.Background(), eve, community.Call{Payload: []byte{byte(i)}})
			if !errors.Is(err, want) || bytes.ContainsRune([]byte(err.Error()), 0x1b) {
				t.Errorf("%v: got %q, want %v", failures[i], err, want)
			}
		}
	})
}

func TestLongCallDoesNotHoldUpShortOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, eve := lyingLink(t, newLAN(t), func(s grpc.BidiStreamingServer[pb.Frame, pb.Frame]) error {
			for {
				f, err := s.Recv()
				if err != nil || f.GetOpen().GetBulk() {
					<-s.Context().Done() // what is long is never read
					return err
				}
				for _, c := range f.GetCalls() {
					if err := s.Send(&pb.Frame{Answers: []*pb.Answer{{Id: c.GetId()}}}); err != nil {
						return err
					}
				}
			}
		})
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		for range 8 { // more than the stream's window
			wg.Go(func() {
				if _, err := a.network.Invoke(ctx, eve, community.Call{Payload: make([]byte, 1<<20)}); !errors.Is(err, context.Canceled) {
					t.Errorf("a long call: got %v", err)
				}
			})
		}
		time.Sleep(time.Second)
		for range 100 {
			if _, err := a.network.Invoke(ctx, eve, community.Call{Payload: make([]byte, 100)}); err != nil {
				t.Fatalf("a short call: %v", err)
			}
		}
		cancel()
		wg.Wait()
	})
}

func TestNodesLimitOfAMessageIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		sa, sb := l.add("a", func(c *grpcpeer.Config) { c.Limits.Message = 4 << 20 }),
			l.add("b", func(c *grpcpeer.Config) { c.Limits.Message = 100 })
		a, b := sa.live("a"), sb.live("b")
		sa.Network.AddHint(sb.Hint())
		sb.Network.AddHint(sa.Hint())
		a.finds(b.id)
		b.finds(a.id)
		a.offers("grow", func(context.Context, community.Signal) (community.Reply, error) {
			return community.Reply{Data: make([]byte, 101)}, nil
		})
		b.offers("echo", echo)
		synctest.Wait()
		echoed := func(size int) error {
			_, err := a.Invoke(t.Context(), community.MemberID(b.id), "echo", community.Signal{Data: make([]byte, size)})
			return err
		}
		if err := echoed(101); !errors.Is(err, community.ErrTooLarge) || a.Refusals(b.id).Total()+b.Refusals(a.id).Total() != 0 {
			t.Errorf("a call: got %v, want that it is not sent", err)
		}
		if _, err := b.network.Invoke(t.Context(), a.id, community.Call{Capability: "grow"}); !errors.Is(err, community.ErrTooLarge) ||
			a.Refusals(b.id)[community.RefusedSize] != 1 {
			t.Errorf("an answer: got %v and %v", err, a.Refusals(b.id))
		}
		if err := echoed(100); err != nil {
			t.Errorf("the next call: %v", err)
		}
	})
}

// Calls that the lanes cannot carry go by themselves, and the lanes go on.
func TestCallThatALaneCannotCarryGoesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		a, b := meet(t, l)
		b.offers("echo", echo)
		long := community.Call{Capability: "echo", ContentType: string(bytes.Repeat([]byte("x"), 20<<10))}
		if r, err := a.network.Invoke(t.Context(), b.id, long); err == nil && len(r.ContentType) != 20<<10 {
			t.Errorf("got %d bytes of content type", len(r.ContentType))
		}
		if _, err := a.network.Invoke(t.Context(), b.id, community.Call{Capability: "echo", ContentType: "\xff"}); err == nil {
			t.Error("a call that is not text was carried")
		}
		for i := range 3 {
			if _, err := a.network.Invoke(t.Context(), b.id, community.Call{Capability: "echo"}); err != nil {
				t.Errorf("call %d: %v", i, err)
			}
		}
		if s, ok := a.status(b.id, grpcpeer.StateConnected); !ok {
			t.Errorf("the link ended: %+v", s)
		}
	})
}

func TestManySizesComeThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		a, b := meet(t, l)
		b.offers("echo", echo)
		var wg sync.WaitGroup
		for i, size := range []int{0, 1, 100, 8<<10 - 1, 8 << 10, 16 << 10, 16<<10 + 1, 64 << 10, 100_000, 1 << 20} {
			for j := range 3 {
				wg.Go(func() {
					want := bytes.Repeat([]byte{byte(i), byte(j)}, size/2+1)[:size]
					r, err := a.network.Invoke(t.Context(), b.id,
						community.Call{Capability: "echo", Payload: want, ContentType: fmt.Sprint(i)})
					if err != nil || !bytes.Equal(r.Data, want) || r.ContentType != fmt.Sprint(i) {
						t.Errorf("%d bytes: got %d of type %q, %v", size, len(r.Data), r.ContentType, err)
					}
				})
			}
		}
		wg.Wait()
	})
}
