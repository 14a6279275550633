package calls

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
)

// slot is a stream that takes one message when it is told to.
type slot struct {
	grpc.BidiStreamingClient[pb.Frame, pb.Frame]
	went chan struct{}
	ends context.Context

	mu   sync.Mutex
	sent []string // what each message held
}

func newSlot(ends context.Context) *slot { return &slot{went: make(chan struct{}), ends: ends} }

func (s *slot) Send(f *pb.Frame) error {
	select {
	case <-s.went:
	case <-s.ends.Done():
		return s.ends.Err()
	}
	text := ""
	for _, c := range f.GetCalls() {
		text += fmt.Sprint(c.GetId(), " ")
	}
	for _, a := range f.GetAnswers() {
		text += fmt.Sprint("re ", a.GetId(), " ")
	}
	for _, id := range f.GetCancels() {
		text += fmt.Sprint("not ", id, " ")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, text)
	return nil
}

func (s *slot) Recv() (*pb.Frame, error) {
	<-s.ends.Done()
	return nil, s.ends.Err()
}

// lets a message through, when there is one, and returns all that went so far.
func (s *slot) lets() string {
	synctest.Wait()
	select {
	case s.went <- struct{}{}:
	default:
	}
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(s.sent)
}

func callItem(id uint64, size int) item { return item{call: &pb.Call{Id: id}, size: size} }

// withOutbox runs a test on an outbox whose stream is a slot.
func withOutbox(t *testing.T, room int, test func(o *outbox, s *slot)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(context.Background())
		s := newSlot(ctx)
		o := newOutbox(s.Send, room)
		var wg sync.WaitGroup
		wg.Go(o.run)
		test(o, s)
		end()
		o.close()
		wg.Wait()
	})
}

func TestWaitingFramesAreSentTogether(t *testing.T) {
	withOutbox(t, 0, func(o *outbox, s *slot) {
		var first sync.WaitGroup
		first.Go(func() { o.put(callItem(1, 10), true) }) // sends by itself
		synctest.Wait()
		for id := uint64(2); id < 5; id++ {
			o.put(callItem(id, 10), id == 2) // alone or not, the stream is taken
		}
		o.put(item{cancel: 1, size: 10}, false)
		o.put(item{answer: &pb.Answer{Id: 7}, size: 10}, false)
		if got, want := s.lets(), "[1 ]"; got != want {
			t.Errorf("sent %s, want %s", got, want)
		}
		first.Wait()
		if got, want := s.lets(), "[1  2 3 4 re 7 not 1 ]"; got != want {
			t.Errorf("sent %s, want %s", got, want)
		}
	})
}

func TestLongFrameIsSentAlone(t *testing.T) {
	withOutbox(t, 0, func(o *outbox, s *slot) {
		for id, size := range []int{0, 10, maxFrame, maxFrame / 2, maxFrame / 2, 2 * maxFrame, 10} {
			if id > 0 {
				o.put(callItem(uint64(id), size), false)
			}
		}
		for range 8 {
			s.lets()
		}
		if got, want := s.lets(), "[1  2  3 4  5  6 ]"; got != want {
			t.Errorf("sent %s, want %s", got, want)
		}
	})
}

func TestUnsentCallCanBeWithdrawn(t *testing.T) {
	withOutbox(t, 0, func(o *outbox, s *slot) {
		o.put(callItem(1, 10), false)
		synctest.Wait() // it is being sent
		o.put(callItem(2, 10), false)
		o.put(callItem(3, 10), false)
		for id, want := range map[uint64]bool{1: false, 2: true, 9: false} {
			if got := o.withdraw(id); got != want {
				t.Errorf("call %d was taken back: %t, want %t", id, got, want)
			}
		}
		s.lets()
		if got, want := s.lets(), "[1  3 ]"; got != want {
			t.Errorf("sent %s, want %s", got, want)
		}
	})
}

func TestAnswerWaitsForRoom(t *testing.T) {
	withOutbox(t, 100, func(o *outbox, s *slot) {
		for id := range uint64(3) { // one is being sent, two fill the room
			o.put(callItem(id, 50), false)
			synctest.Wait()
		}
		var in bool
		var late sync.WaitGroup
		late.Go(func() { o.put(callItem(3, 50), false); in = true })
		synctest.Wait()
		if in {
			t.Error("there was room for 150 bytes, want 100")
		}
		s.lets()
		if late.Wait(); !in {
			t.Error("there was no room after a message went")
		}
	})
}

func TestRoomWakesSeveralWaiters(t *testing.T) {
	withOutbox(t, 100, func(o *outbox, s *slot) {
		var in atomic.Int32
		var all sync.WaitGroup
		put := func(size int, alone bool) {
			all.Go(func() { o.put(callItem(1, size), alone); in.Add(1) })
			synctest.Wait()
		}
		put(10, true)
		put(100, false)
		for range 7 {
			put(40, false)
		}
		for _, want := range []int32{5, 8, 9} { // of 40 bytes, 3 come in before there are 100
			s.lets()
			if got := in.Load(); got != want {
				t.Errorf("%d have come in, want %d", got, want)
			}
		}
		all.Wait()
	})
}

func TestClosedOutboxBlocksNoSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(context.Background())
		o := newOutbox(newSlot(ctx).Send, 10)
		var wg sync.WaitGroup
		wg.Go(o.run)
		for range 5 {
			wg.Go(func() { o.put(callItem(1, 10), true) })
		}
		synctest.Wait()
		wg.Go(o.close)
		synctest.Wait()
		end()
		wg.Wait()
		o.put(callItem(1, 10), true)
		o.close()
	})
}

var fewCalls = ClientConfig{MaxCalls: 4, MaxMessage: 1 << 20, Stuck: 3 * time.Second}

// stalled is a node that reads some frames of each Link stream and then nothing.
type stalled struct {
	pb.PeerClient
	reads int
}

func (s *stalled) Link(ctx context.Context, _ ...grpc.CallOption) (grpc.BidiStreamingClient[pb.Frame, pb.Frame], error) {
	one := newSlot(ctx)
	go func() {
		for range s.reads {
			select {
			case one.went <- struct{}{}:
			case <-ctx.Done():
			}
		}
	}()
	return one, nil
}

func TestCallsThatAreGivenUpDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := Open(t.Context(), &stalled{reads: 2}, fewCalls)
		if err != nil {
			t.Fatal(err)
		}
		var first sync.WaitGroup
		first.Go(func() {
			if _, err := p.Invoke(context.Background(), community.Call{}); !errors.Is(err, community.ErrUnavailable) {
				t.Errorf("the call that the node read: got %v", err)
			}
		})
		synctest.Wait()
		busy, late := 0, 0
		for range 1000 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			_, err := p.Invoke(ctx, community.Call{Payload: make([]byte, 1000)})
			cancel()
			switch {
			case errors.Is(err, community.ErrBusy):
				busy++
			case errors.Is(err, context.DeadlineExceeded):
				late++
			default:
				t.Fatalf("got %v", err)
			}
		}
		out := p.lanes[short]
		if len(out.queue) > 8 || len(p.waiting) > 4 {
			t.Errorf("%d items and %d calls wait, want at most 8 and 4", len(out.queue), len(p.waiting))
		}
		t.Logf("%d were late, %d refused; %d items wait", late, busy, len(out.queue))
		p.Close()
		first.Wait()
		if _, err := p.Invoke(context.Background(), community.Call{}); !errors.Is(err, community.ErrUnavailable) {
			t.Errorf("a call after the end: got %v", err)
		}
	})
}

func TestUnreadingNodeDoesNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := Open(t.Context(), &stalled{reads: 1}, fewCalls)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = p.Invoke(context.Background(), community.Call{})
		if took := time.Since(began); !errors.Is(err, community.ErrUnavailable) || took != fewCalls.Stuck {
			t.Errorf("got %v after %v, want %v after %v", err, took, community.ErrUnavailable, fewCalls.Stuck)
		}
		if err := context.Cause(p.broken); !errors.Is(err, ErrProtocol) {
			t.Errorf("the lanes ended with %v", err)
		}
		p.Close()
	})
}
