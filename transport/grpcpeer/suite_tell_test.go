package grpcpeer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"symbio/community"
)

func tellArrivesInOrder(t *testing.T, l *caseLAN) {
	a, b := l.up("a"), l.up("b")
	got := make(chan community.Signal, 8)
	b.spawns("worker", func(_ context.Context, s community.Signal) (community.Reply, error) {
		got <- s
		return community.Reply{Data: []byte("nobody hears this")}, nil
	})
	worker := a.finds("worker").ID
	for round := range 20 {
		for i := range 8 {
			s := work(fmt.Sprint(round, " ", i))
			s.ContentType, s.Requester, s.OnBehalf = "text/plain", []string{"user"}, []byte("no more")
			if i%3 == 0 { // long and short ones take turns
				s.Data = append(s.Data, make([]byte, 40_000)...)
			}
			if err := a.Tell(in(t, patience), worker, s); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 8 {
			s := <-got
			want := fmt.Sprint(round, " ", i)
			if len(s.Data) < len(want) || string(s.Data[:len(want)]) != want || len(s.Data) > len(want) != (i%3 == 0) {
				t.Fatalf("signal %s came as %d bytes that begin with %q", want, len(s.Data), s.Data[:min(len(s.Data), 10)])
			}
			if s.ContentType != "text/plain" || len(s.Requester) != 2 || s.Requester[0] != string(a.id) || s.Requester[1] != "user" ||
				string(s.OnBehalf) != "no more" {
				t.Fatalf("it came with type %q and requesters %v", s.ContentType, s.Requester)
			}
		}
		// Handled is not yet known to be handled: in a bubble time passes only when it is.
		<-time.After(time.Millisecond)
	}
	if n := a.Undelivered(); n != 0 {
		t.Errorf("%d were reported as not delivered", n)
	}
}

// reports are what a place is told of its Tells.
type reports chan community.DeliveryFailure

func (r reports) tune(cfg *community.Config) {
	cfg.OnUndelivered = func(u community.DeliveryFailure) { r <- u }
}

func tellThatFailsIsReported(t *testing.T, l *caseLAN) {
	told := make(reports, 100)
	a := l.up("a", told.tune)
	b := l.up("b", func(cfg *community.Config) {
		cfg.MaxMessage = 1000
		cfg.Authorize = func(_ community.Peer, c community.Call) error {
			if len(c.Requester) > 1 {
				return errors.New("secret")
			}
			return nil
		}
	})
	b.spawns("worker", func(_ context.Context, s community.Signal) (community.Reply, error) {
		if string(s.Data) == "panic" {
			panic("secret")
		}
		return community.Reply{}, errors.New("secret")
	})
	worker := a.finds("worker").ID
	denied := work("")
	denied.Requester = []string{"user"}
	for _, c := range []struct {
		s    community.Signal
		want error
	}{{work("fail"), community.ErrAgentFailed}, {work("panic"), community.ErrAgentFailed}, {denied, community.ErrDenied},
		{work(string(make([]byte, 2000))), community.ErrTooLarge}} {
		if err := a.Tell(in(t, patience), worker, c.s); err != nil {
			t.Fatal(err)
		}
		u := <-told
		if !errors.Is(u.Err, c.want) || u.Node != b.id || u.Member != worker || u.Perception != "work" || u.Count != 1 {
			t.Errorf("got %+v, want %v of one signal to the worker", u, c.want)
		}
	}
	for _, c := range []struct {
		call community.Call
		want error
	}{
		{community.Call{Member: community.MemberID(a.id), Capability: community.PerceptionPrefix + "work"}, community.ErrNotFound},
		{community.Call{Member: worker, Capability: community.PerceptionPrefix + "play"}, community.ErrNotAccepted},
		{community.Call{Member: worker, Capability: "work"}, community.ErrNotProvided},
		{community.Call{Capability: "work"}, community.ErrNotProvided},
	} {
		if err := a.end.Tell(b.id, c.call); err != nil {
			t.Fatal(err)
		}
		if u := <-told; !errors.Is(u.Err, c.want) || u.Count != 1 {
			t.Errorf("a call past the community: got %+v, want %v", u, c.want)
		}
	}
	if n := a.Undelivered(); n != 8 {
		t.Errorf("%d were counted, want 8", n)
	}
	if err := a.Tell(in(t, patience), worker, community.Signal{Perception: "play"}); !errors.Is(err, community.ErrNotAccepted) {
		t.Errorf("what the worker does not accept: got %v", err)
	}
	if err := a.Tell(in(t, patience), worker, work(string(make([]byte, 2<<20)))); !errors.Is(err, community.ErrTooLarge) {
		t.Errorf("what is too large to leave: got %v", err)
	}
}

// tellToASlowAgentIsBounded also says that each signal either is handled or comes back, once.
func tellToASlowAgentIsBounded(t *testing.T, l *caseLAN) {
	told := make(reports, 1000)
	a, b := l.up("a", told.tune), l.up("b")
	release, handled := make(chan bool), make(chan bool, 1000)
	b.spawns("worker", func(context.Context, community.Signal) (community.Reply, error) {
		<-release
		handled <- true
		return community.Reply{}, nil
	})
	worker := a.finds("worker").ID
	sent, busy := 0, 0
	for range 1000 {
		switch err := a.Tell(in(t, patience), worker, work("")); {
		case err == nil:
			sent++
		case errors.Is(err, community.ErrBusy):
			busy++
		default:
			t.Fatal(err)
		}
	}
	close(release)
	n, back := 0, 0
	for n+back < sent {
		select {
		case <-handled:
			n++
		case u := <-told:
			back += int(u.Count)
			if !errors.Is(u.Err, community.ErrBusy) {
				t.Errorf("got %+v, want ErrBusy", u)
			}
		}
	}
	if n == 0 || busy+back == 0 || n+back != sent || int(a.Undelivered()) != back {
		t.Errorf("of 1000 signals %d were refused at once, %d handled, %d came back, %d were counted", busy, n, back, a.Undelivered())
	}
}

func tellOnALostLinkIsReported(t *testing.T, l *caseLAN) {
	killer, ok := l.fixture.(Killer)
	if !ok {
		t.Skip("this fixture cannot kill a node")
	}
	told := make(reports, 100)
	a, b := l.up("a", told.tune), l.up("b")
	begun, release := make(chan bool, 3), make(chan bool)
	defer close(release)
	b.spawns("worker", func(context.Context, community.Signal) (community.Reply, error) {
		begun <- true
		<-release
		return community.Reply{}, nil
	})
	worker := a.finds("worker").ID
	for range 3 {
		if err := a.Tell(in(t, patience), worker, work("")); err != nil {
			t.Fatal(err)
		}
	}
	<-begun
	killer.Kill(b.id)
	for lost := uint64(0); lost < 3; {
		u := <-told
		if lost += u.Count; !errors.Is(u.Err, community.ErrUnavailable) || u.Node != b.id || lost > 3 {
			t.Errorf("got %+v, want ErrUnavailable of three signals", u)
		}
	}
	a.sees("that the worker is away", away(worker))
	if err := a.Tell(in(t, patience), worker, work("")); !errors.Is(err, community.ErrUnavailable) {
		t.Errorf("afterwards: got %v", err)
	}
}
