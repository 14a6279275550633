package grpcpeer_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
	"symbio/transport/grpcpeer"
)

// telling is a liar whose InvokeStream is as given.
type telling struct {
	*linking
	tell func(grpc.BidiStreamingServer[pb.InvokeRequest, pb.InvokeEvent]) error
}

func (t *telling) InvokeStream(s grpc.BidiStreamingServer[pb.InvokeRequest, pb.InvokeEvent]) error {
	return t.tell(s)
}

// lyingStream connects a home to a node whose InvokeStream is as given.
func lyingStream(t *testing.T, l *lan, tell func(grpc.BidiStreamingServer[pb.InvokeRequest, pb.InvokeEvent]) error,
	tune ...func(*grpcpeer.Config)) (*home, community.NodeID) {
	t.Helper()
	sa := l.add("a", tune...)
	a := sa.live("a")
	id := l.identity("eve")
	d := honest(id)
	d.Catalog = &pb.Catalog{
		Members:      []*pb.Member{{Id: d.GetId(), Name: "eve", Node: d.GetId(), Provides: []string{"long"}, Available: true}},
		Capabilities: []*pb.Capability{{Name: "long"}},
	}
	events := []*pb.CatalogEvent{{Event: &pb.CatalogEvent_Snapshot{Snapshot: d.Catalog}}}
	for range 100 {
		events = append(events, &pb.CatalogEvent{Event: &pb.CatalogEvent_Heartbeat{}})
	}
	idle := func(s grpc.BidiStreamingServer[pb.Frame, pb.Frame]) error { <-s.Context().Done(); return nil }
	s := l.serves(id, &telling{&linking{&liar{describe: d, events: events}, idle}, tell})
	sa.Network.AddHint(s.Hint())
	synctest.Wait()
	return a, s.ID
}

func progress(message string) *pb.InvokeEvent {
	return &pb.InvokeEvent{Event: &pb.InvokeEvent_Progress{Progress: &pb.Progress{Message: message}}}
}

func chunk(data []byte) *pb.InvokeEvent {
	return &pb.InvokeEvent{Event: &pb.InvokeEvent_Chunk{Chunk: &pb.Chunk{Data: data}}}
}

func final(data string) *pb.InvokeEvent {
	return &pb.InvokeEvent{Event: &pb.InvokeEvent_Reply{Reply: &pb.InvokeReply{Payload: []byte(data)}}}
}

func TestListenedCallHasOneEndWhateverItsNodeSends(t *testing.T) {
	type sent = grpc.BidiStreamingServer[pb.InvokeRequest, pb.InvokeEvent]
	all := func(events ...*pb.InvokeEvent) func(sent) error {
		return func(s sent) error {
			for _, e := range events {
				if err := s.Send(e); err != nil {
					return err
				}
			}
			return nil
		}
	}
	endless := func(e *pb.InvokeEvent) func(sent) error {
		return func(s sent) error {
			for {
				if err := s.Send(e); err != nil {
					return err
				}
			}
		}
	}
	for name, tt := range map[string]struct {
		tell func(sent) error
		data string
		want error
	}{
		"an answer":               {all(progress("x"), final("yes")), "yes", nil},
		"two answers":             {all(final("yes"), final("no"), progress("x")), "yes", nil},
		"an error after it":       {func(s sent) error { return errors.Join(s.Send(final("yes")), errors.New("no")) }, "yes", nil},
		"endless after it":        {func(s sent) error { return errors.Join(s.Send(final("yes")), endless(progress("x"))(s)) }, "yes", nil},
		"an event of no kind":     {all(&pb.InvokeEvent{}, &pb.InvokeEvent{Missed: 1 << 63}, final("yes")), "yes", nil},
		"an empty chunk":          {all(chunk(nil), final("yes")), "yes", nil},
		"an absent one":           {all(&pb.InvokeEvent{Event: &pb.InvokeEvent_Chunk{}}, &pb.InvokeEvent{Event: &pb.InvokeEvent_Progress{}}, final("yes")), "yes", nil},
		"an empty answer":         {all(&pb.InvokeEvent{Event: &pb.InvokeEvent_Reply{Reply: &pb.InvokeReply{}}}), "", nil},
		"no answer":               {all(progress("x")), "", community.ErrAgentFailed},
		"nothing":                 {all(), "", community.ErrAgentFailed},
		"an error":                {func(sent) error { return errors.New("no") }, "", community.ErrAgentFailed},
		"endless progress":        {endless(progress("x")), "", community.ErrTooLarge},
		"endless chunks":          {endless(chunk(make([]byte, 1000))), "", community.ErrTooLarge},
		"endless events":          {endless(&pb.InvokeEvent{}), "", community.ErrTooLarge},
		"a giant chunk":           {all(chunk(make([]byte, 2<<20)), final("yes")), "", community.ErrTooLarge},
		"a giant line":            {all(progress(strings.Repeat("x", 2<<20)), final("yes")), "", community.ErrTooLarge},
		"a giant answer":          {all(final(strings.Repeat("x", 1<<20+1))), "", community.ErrTooLarge},
		"it says it is cancelled": {func(sent) error { return status.FromContextError(context.Canceled).Err() }, "", community.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, eve := lyingStream(t, newLAN(t), tt.tell)
				over := false
				r, err := a.InvokeStream(t.Context(), community.MemberID(eve), "long", community.Signal{}, func(community.Update) {
					if over {
						t.Error("an update is heard after the end")
					}
				})
				over = true
				if string(r.Data) != tt.data || !errors.Is(err, tt.want) {
					t.Errorf("got %q, %v, want %q, %v", r.Data, err, tt.data, tt.want)
				}
				if name == "no answer" && !strings.Contains(err.Error(), "without an answer") {
					t.Errorf("got %v, which does not say what was wrong", err)
				}
				synctest.Wait()
				if s, ok := a.status(eve, grpcpeer.StateConnected); !ok {
					t.Errorf("the connection did not outlive the call: %+v", s)
				}
			})
		})
	}
}

// A client that opens a call and never reads holds up the output of that call and nothing else.
func TestUnreadingListenerDelaysItsOwnCallOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, c := serving(t)
		var reported atomic.Int32
		ended := make(chan error, 1)
		h.offers("hasty", func(ctx context.Context, _ community.Signal) (community.Reply, error) {
			for range 1000 {
				for range 20 {
					community.Report(ctx, community.Progress{Message: strings.Repeat("x", 400)})
				}
				reported.Add(20)
				time.Sleep(time.Millisecond)
			}
			err := community.Emit(ctx, make([]byte, 8<<20), "")
			ended <- err
			return community.Reply{}, err
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if _, err := streamed(ctx, c, &pb.InvokeRequest{Capability: "hasty"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if n := reported.Load(); n != 20_000 {
			t.Errorf("the provider has made %d reports", n)
		}
		for range 10 {
			if r, err := c.Invoke(in(t, patience), &pb.InvokeRequest{Capability: "echo", Payload: []byte("x")}); err != nil ||
				string(r.GetPayload()) != "x" {
				t.Errorf("a call beside it got %v, %v", r, err)
			}
		}
		select {
		case err := <-ended:
			t.Errorf("8 MiB of output went somewhere: %v", err)
		default:
		}
		cancel()
		synctest.Wait()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the provider's Emit ended with %v", err)
		}
	})
}

// A call ends at its deadline for the node, also when its caller neither reads nor goes away.
func TestUnreadCallFreesItsPlaceAtDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, c := serving(t)
		var ended atomic.Int32
		h.offers("chatty", func(ctx context.Context, _ community.Signal) (community.Reply, error) {
			defer ended.Add(1)
			return community.Reply{}, community.Emit(ctx, make([]byte, 2<<20), "")
		})
		const calls = 64 // as many as a node may have
		for range calls {
			if _, err := streamed(t.Context(), c,
				&pb.InvokeRequest{Capability: "chatty", Deadline: durationpb.New(time.Second)}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Second)
		if n := ended.Load(); n != calls {
			t.Errorf("%d of %d providers have ended", n, calls)
		}
		if _, err := c.Invoke(in(t, patience), &pb.InvokeRequest{Capability: "echo"}); err != nil {
			t.Errorf("the next call got %v", err)
		}
	})
}

// A call that is given up by its listener ends on the node, and its place is free again.
func TestListenedCallsAreLimitedAndReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		l.tune = func(c *grpcpeer.Config) { c.Limits.Calls = 2 }
		a, b := meet(t, l)
		var begun atomic.Int32
		b.offers("stuck", func(ctx context.Context, s community.Signal) (community.Reply, error) {
			begun.Add(1)
			return stuck(ctx, s)
		})
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			var calls sync.WaitGroup
			for range 2 {
				calls.Go(func() {
					_, err := a.network.Invoke(ctx, b.id, community.Call{Capability: "stuck", Listen: func(community.Update) {}})
					if !errors.Is(err, context.Canceled) {
						t.Errorf("got %v", err)
					}
				})
			}
			synctest.Wait()
			if _, err := a.network.Invoke(ctx, b.id,
				community.Call{Capability: "stuck", Listen: func(community.Update) {}}); !errors.Is(err, community.ErrBusy) {
				t.Errorf("one more got %v, want ErrBusy", err)
			}
			cancel()
			calls.Wait()
			synctest.Wait()
		}
		if n := begun.Load(); n != 6 {
			t.Errorf("%d calls were begun, want 6", n)
		}
	})
}

// A foreign client hears updates and one answer, and then the end.
func TestForeignClientListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, c := serving(t)
		h.offers("long", func(ctx context.Context, _ community.Signal) (community.Reply, error) {
			community.Report(ctx, community.Progress{Message: "half", Done: 1, Total: 2})
			if err := community.Emit(ctx, []byte("abc"), "text/plain"); err != nil {
				return community.Reply{}, err
			}
			return community.Reply{Data: []byte("done")}, nil
		})
		s, err := streamed(in(t, patience), c, &pb.InvokeRequest{Capability: "long"})
		var got []string
		for err == nil {
			var e *pb.InvokeEvent
			if e, err = s.Recv(); err == nil {
				got = append(got, e.GetProgress().GetMessage()+string(e.GetChunk().GetData())+string(e.GetReply().GetPayload()))
			}
		}
		if !errors.Is(err, io.EOF) || strings.Join(got, " ") != "half abc done" {
			t.Errorf("got %q, %v", got, err)
		}
		for capability, want := range map[string]string{"nothing": "not provide"} {
			s, err := streamed(in(t, patience), c, &pb.InvokeRequest{Capability: capability})
			if err == nil {
				_, err = s.Recv()
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q in it", capability, err, want)
			}
		}
	})
}

// streamed begins a call as a client of another language does.
func streamed(ctx context.Context, c pb.PeerClient, r *pb.InvokeRequest) (pb.Peer_InvokeStreamClient, error) {
	s, err := c.InvokeStream(ctx)
	if err != nil {
		return nil, err
	}
	return s, errors.Join(s.Send(r), s.CloseSend())
}
