package grpcpeer_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// overLimit is a payload over the default limit that gRPC still reads.
var overLimit = make([]byte, 1<<20+1)

// The caller's side of this test is a raw client, which checks no sizes.
func TestServerRefusesLargeRequestOfHostilePeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t)
		s := l.add("a")
		a := s.live("a")
		var calls atomic.Int32
		a.offers("count", func(context.Context, community.Signal) (community.Reply, error) {
			calls.Add(1)
			return community.Reply{}, nil
		})
		rogue := community.NodeID(l.identity("rogue").ID())
		lane := openLane(t, client(t, l.identity("rogue"), s.Listener.Dial), &pb.Open{Bulk: true, MaxMessage: 1 << 63})
		lane.call(1, "count", overLimit...)
		if f := lane.answers(1)[1].GetFailure(); f.GetReason() != "TOO_LARGE" {
			t.Errorf("a call got %v, want TOO_LARGE", f)
		}
		lane.send(&pb.Frame{Sends: []*pb.InvokeRequest{{Capability: "count", Payload: overLimit}}})
		f, err := lane.Recv()
		if u := f.GetReceipt().GetUndelivered(); err != nil || len(u) != 1 || u[0].GetFailure().GetReason() != "TOO_LARGE" {
			t.Errorf("a send got %v, %v, want TOO_LARGE", u, err)
		}
		if n := a.Refusals(rogue)[community.RefusedSize]; n != 2 || calls.Load() != 0 {
			t.Errorf("%d requests were counted as too large and %d reached the provider, want 2 and none", n, calls.Load())
		}
		lane.call(2, "count")
		if f := lane.answers(1)[2].GetFailure(); f != nil {
			t.Errorf("the next call got %v", f)
		}
	})
}

// The provider's side of this test is a server that answers too much, whatever the caller announced.
func TestCallerRefusesLargeReplyOfHostilePeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reply := overLimit
		a, eve := hostileProvider(t, 0, func(*pb.InvokeRequest) []byte { return reply })
		if r, err := a.Invoke(t.Context(), eve, "any", community.Signal{}); !errors.Is(err, community.ErrTooLarge) || r.Data != nil {
			t.Errorf("got %d bytes, %v, want ErrTooLarge", len(r.Data), err)
		}
		reply = overLimit[1:]
		if r, err := a.Invoke(t.Context(), eve, "any", community.Signal{}); err != nil || len(r.Data) != 1<<20 {
			t.Errorf("the next call got %d bytes, %v", len(r.Data), err)
		}
	})
}

func TestCallerKeepsLimitThatPeerAnnounced(t *testing.T) {
	for name, tt := range map[string]struct {
		announced uint64
		fits      int
	}{"none": {0, 1 << 20}, "small": {100, 100}, "huge": {1 << 63, 1 << 20}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var received atomic.Int64
				a, eve := hostileProvider(t, tt.announced, func(r *pb.InvokeRequest) []byte {
					received.Add(int64(len(r.GetPayload())))
					return nil
				})
				call := community.Signal{Data: make([]byte, tt.fits+1)}
				if _, err := a.Invoke(t.Context(), eve, "any", call); !errors.Is(err, community.ErrTooLarge) || received.Load() != 0 {
					t.Errorf("%d bytes: got %v, and %d bytes were received; want ErrTooLarge and none", len(call.Data), err, received.Load())
				}
				call.Data = call.Data[1:]
				if _, err := a.Invoke(t.Context(), eve, "any", call); err != nil || received.Load() != int64(tt.fits) {
					t.Errorf("%d bytes: got %v, and %d bytes were received", len(call.Data), err, received.Load())
				}
			})
		})
	}
}

// hostileProvider connects a home to a server that provides "any", announces a limit and answers calls as given.
func hostileProvider(t *testing.T, announced uint64, answer func(*pb.InvokeRequest) []byte) (*home, community.MemberID) {
	t.Helper()
	l := newLAN(t)
	sa := l.add("a")
	a := sa.live("a")
	s := l.lies("eve", func(id *identity.Identity) *liar {
		d := honest(id)
		d.MaxMessage = announced
		snapshot := &pb.Catalog{
			Members:      []*pb.Member{{Id: d.GetId(), Name: "eve", Node: d.GetId(), Provides: []string{"any"}, Available: true}},
			Capabilities: []*pb.Capability{{Name: "any"}},
		}
		return &liar{describe: d, events: []*pb.CatalogEvent{{Event: &pb.CatalogEvent_Snapshot{Snapshot: snapshot}}},
			invoke: func(_ context.Context, r *pb.InvokeRequest) (*pb.InvokeReply, error) {
				return &pb.InvokeReply{Payload: answer(r)}, nil
			}}
	})
	sa.Network.AddHint(s.Hint())
	synctest.Wait()
	return a, community.MemberID(s.ID)
}
