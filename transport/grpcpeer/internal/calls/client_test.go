package calls

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
)

// wired is a Client whose frames arrive in a channel.
type wired struct {
	*Client
	t    *testing.T
	sent chan *pb.Call
}

func newWired(t *testing.T, maxCalls int) *wired {
	w := &wired{t: t, sent: make(chan *pb.Call, 100)}
	w.Client = &Client{cfg: ClientConfig{MaxCalls: maxCalls}, waiting: map[uint64]chan *pb.Answer{}}
	w.broken, w.lose = context.WithCancelCause(t.Context())
	for i := range w.lanes {
		w.lanes[i] = newOutbox(func(f *pb.Frame) error {
			for _, c := range f.GetCalls() {
				w.sent <- c
			}
			return nil
		}, 0)
		w.loops.Go(w.lanes[i].run)
	}
	return w
}

// invoke makes a call in a goroutine of its own.
func (w *wired) invoke(ctx context.Context, name string) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := w.Invoke(ctx, community.Call{Capability: name})
		done <- err
	}()
	synctest.Wait()
	return done
}

// next returns the call that was sent, nil if none was.
func (w *wired) next() *pb.InvokeRequest {
	synctest.Wait()
	select {
	case c := <-w.sent:
		return c.GetRequest()
	default:
		return nil
	}
}

func (w *wired) answer(ids ...uint64) {
	for _, id := range ids {
		w.dispatch([]*pb.Answer{{Id: id}})
	}
}

func TestCallsAboveTheLimitAreSentInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWired(t, 1)
		defer w.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		impatient, giveUp := context.WithCancel(ctx)
		first, second, third, fourth := w.invoke(ctx, "1"), w.invoke(impatient, "2"), w.invoke(ctx, "3"), w.invoke(ctx, "4")
		if r := w.next(); r.GetCapability() != "1" || w.next() != nil {
			t.Fatalf("%v was sent, want the first call only", r)
		}
		time.Sleep(20 * time.Second)
		giveUp()
		if err := <-second; !errors.Is(err, context.Canceled) {
			t.Errorf("a call that waits and is canceled got %v", err)
		}
		w.answer(1)
		r := w.next()
		if err := <-first; err != nil || r.GetCapability() != "3" || r.GetDeadline().AsDuration() != 40*time.Second {
			t.Errorf("after the answer (%v) %v was sent, want the third call with 40s of its minute", err, r)
		}
		w.answer(3)
		if r := w.next(); <-third != nil || r.GetCapability() != "4" {
			t.Errorf("%v was sent, want the fourth call", r)
		}
		w.answer(4)
		if err := <-fourth; err != nil || w.Client.busy() {
			t.Errorf("the last call got %v; busy is %v, want false", err, w.Client.busy())
		}
	})
}

func TestCallerThatGivesUpKeepsItsTurnUntilTheNodeAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWired(t, 1)
		defer w.Close()
		ctx, giveUp := context.WithCancel(t.Context())
		first, second := w.invoke(ctx, "1"), w.invoke(t.Context(), "2")
		w.next()
		giveUp()
		if err := <-first; !errors.Is(err, context.Canceled) || w.next() != nil {
			t.Fatalf("got %v; the second call must wait: the node still works on the first", err)
		}
		w.answer(1)
		if r := w.next(); r.GetCapability() != "2" {
			t.Fatalf("%v was sent, want the second call", r)
		}
		w.end(ErrBroken)
		if err := <-second; !errors.Is(err, community.ErrUnavailable) {
			t.Errorf("after the connection broke, got %v", err)
		}
	})
}
