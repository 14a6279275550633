package grpcpeer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
)

// taking is a lying node that says it takes sends.
func taking(t *testing.T, most uint64, link func(grpc.BidiStreamingServer[pb.Frame, pb.Frame]) error,
	told func(community.DeliveryFailure)) (*home, community.NodeID) {
	t.Helper()
	l := newLAN(t)
	sa := l.add("a")
	a := sa.live("a", func(cfg *community.Config) { cfg.OnUndelivered = told })
	id := l.identity("eve")
	d := honest(id)
	d.MaxSends = most
	events := []*pb.CatalogEvent{{Event: &pb.CatalogEvent_Snapshot{Snapshot: &pb.Catalog{}}}}
	for range 100 {
		events = append(events, &pb.CatalogEvent{Event: &pb.CatalogEvent_Heartbeat{}})
	}
	s := l.serves(id, &linking{&liar{describe: d, events: events}, link})
	sa.Network.AddHint(s.Hint())
	synctest.Wait()
	return a, s.ID
}

// member is one that may be eve's: nobody else has it.
var member = community.MemberID(fmt.Sprintf("%032d", 7))

func tell(size int) community.Call {
	return community.Call{Member: member, Capability: community.PerceptionPrefix + "work", Payload: make([]byte, size)}
}

func TestReceiptCannotExceedSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var receipt atomic.Pointer[pb.Receipt]
		var told []community.DeliveryFailure
		a, eve := taking(t, 3, func(s grpc.BidiStreamingServer[pb.Frame, pb.Frame]) error {
			for {
				f, err := s.Recv()
				if err != nil {
					return err
				}
				if r := receipt.Load(); r != nil && len(f.GetSends()) > 0 {
					if err := s.Send(&pb.Frame{Receipt: r}); err != nil {
						return err
					}
				}
			}
		}, func(u community.DeliveryFailure) { told = append(told, u) })
		failure := &pb.Failure{Code: uint32(codes.ResourceExhausted), Reason: "BUSY", Explanation: "no\x1b[31m"}
		receipt.Store(&pb.Receipt{Over: 1000, Undelivered: []*pb.Undelivered{
			{Member: string(member), Capability: community.PerceptionPrefix + "work", Failure: failure, Count: 0},
			{Member: string(a.id), Capability: "\x1b", Failure: failure, Count: 1 << 63}, nil}})
		for range 5 { // a node that acknowledges more than there was gives no more room
			if err := a.network.Tell(eve, tell(1)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if a.Undelivered() != 5 || len(told) != 5 {
			t.Fatalf("5 signals were told, and %d, as %v, came back", a.Undelivered(), told)
		}
		for _, u := range told {
			if u.Count != 1 || u.Member != "" || u.Perception != "" || !errors.Is(u.Err, community.ErrBusy) ||
				community.Explanation(u.Err) != "no[31m" && community.Explanation(u.Err) != "no [31m" {
				t.Errorf("got %+v, %q", u, u.Err)
			}
		}
		receipt.Store(nil)
		for i := range 5 {
			if err := a.network.Tell(eve, tell(1)); errors.Is(err, community.ErrBusy) != (i >= 3) {
				t.Errorf("signal %d of which nothing is heard: got %v", i, err)
			}
		}
	})
}

func TestSignalsToUnreadingNodeAreBoundedAndReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Int64
		a, eve := taking(t, 1<<40, func(s grpc.BidiStreamingServer[pb.Frame, pb.Frame]) error {
			<-s.Context().Done() // nothing is read
			return nil
		}, func(u community.DeliveryFailure) { told.Add(int64(u.Count)) })
		sent, bytes := int64(0), 0
		for range 1000 {
			if err := a.network.Tell(eve, tell(100_000)); err == nil {
				sent++
				bytes += 100_000
			} else if !errors.Is(err, community.ErrBusy) {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if bytes > 3<<20 || sent < 3 { // a window, what gRPC keeps, and what may wait here
			t.Errorf("%d signals of %d bytes were taken for a node that does not read", sent, bytes)
		}
		time.Sleep(5 * time.Minute) // eve has fallen silent by then
		if told.Load() != sent {
			t.Errorf("%d of %d were reported", told.Load(), sent)
		}
	})
}

// A hostile node cannot make the receipts of its sends pile up.
func TestUnreadReceiptsStaySmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := serving(t)
		l := openLane(t, c, nil)
		var sending sync.WaitGroup
		const frames, each = 200, 500
		sending.Go(func() {
			f := &pb.Frame{}
			for i := range each {
				f.Sends = append(f.Sends, &pb.InvokeRequest{Member: fmt.Sprint(i), Capability: "x"})
			}
			for range frames {
				if err := l.Send(f); err != nil {
					t.Error(err)
					return
				}
			}
		})
		sending.Wait() // nobody has read anything
		over, kinds := uint64(0), 0
		for over < frames*each {
			f, err := l.Recv()
			if errors.Is(err, io.EOF) || err != nil {
				t.Fatal(err)
			}
			n := uint64(0)
			for _, u := range f.GetReceipt().GetUndelivered() {
				n += u.GetCount()
			}
			if n != f.GetReceipt().GetOver() {
				t.Errorf("%d were over, and %d undelivered", f.GetReceipt().GetOver(), n)
			}
			over += n
			kinds = max(kinds, len(f.GetReceipt().GetUndelivered()))
		}
		if over != frames*each || kinds > 40 {
			t.Errorf("%d of %d were over, in receipts of up to %d kinds", over, frames*each, kinds)
		}
	})
}

func TestSendAfterTheEndOfItsLaneIsStillHandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, c := serving(t)
		release, handled := make(chan bool), make(chan error, 1)
		m, err := h.Spawn(context.Background(), "slow", func(community.Member) (community.Agent, error) {
			return slow(func(ctx context.Context) { <-release; handled <- ctx.Err() }), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		l := openLane(t, c, nil)
		l.send(&pb.Frame{Sends: []*pb.InvokeRequest{{Member: string(m.ID), Capability: community.PerceptionPrefix + "work"}}})
		synctest.Wait()
		if err := l.CloseSend(); err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = l.Recv()
		}
		close(release)
		if err := <-handled; err != nil {
			t.Errorf("the agent's context ended with the lane: %v", err)
		}
	})
}

type slow func(context.Context)

func (slow) Perceptions() []string { return []string{"work"} }

func (f slow) Receive(ctx context.Context, _ community.Signal) (community.Reply, error) {
	f(ctx)
	return community.Reply{}, nil
}
