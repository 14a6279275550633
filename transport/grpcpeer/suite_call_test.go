package grpcpeer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"symbio/actor"
	"symbio/community"

	"github.com/google/go-cmp/cmp"
)

// agent is an agent made of a function.
type agent struct{ receive community.Provider }

func (a *agent) Perceptions() []string { return []string{"work"} }

func (a *agent) Receive(ctx context.Context, s community.Signal) (community.Reply, error) {
	return a.receive(ctx, s)
}

// spawns makes an agent at the place that takes the perception "work".
func (p *place) spawns(name string, receive community.Provider, opts ...community.SpawnOption) community.Member {
	p.t.Helper()
	m, err := p.Spawn(context.Background(), name, func(community.Member) (community.Agent, error) {
		return &agent{receive}, nil
	}, opts...)
	if err != nil {
		p.t.Fatal(err)
	}
	return m
}

// work is a signal to an agent of spawns.
func work(data string) community.Signal {
	return community.Signal{Perception: "work", Data: []byte(data)}
}

func sendIsAnswered(t *testing.T, l *caseLAN) {
	a, b := l.up("a"), l.up("b")
	got := make(chan community.Signal, 1)
	b.spawns("worker", func(_ context.Context, s community.Signal) (community.Reply, error) {
		got <- s
		return community.Reply{Data: []byte("done"), ContentType: "text/plain"}, nil
	})
	s := community.Signal{Perception: "work", Data: []byte("cut"), ContentType: "text/x-order", Requester: []string{"user", "boss"},
		OnBehalf: []byte("no more than that")}
	r, err := a.Send(in(t, patience), a.finds("worker").ID, s)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(community.Reply{Data: []byte("done"), ContentType: "text/plain"}, r); diff != "" {
		t.Errorf("another reply came (-want +got):\n%s", diff)
	}
	s.Requester = []string{string(a.id), "user", "boss"}
	if diff := cmp.Diff(s, <-got); diff != "" {
		t.Errorf("the agent got another signal (-want +got):\n%s", diff)
	}
}

func invokeIsAnswered(t *testing.T, l *caseLAN) {
	a, b := l.up("a"), l.up("b")
	got := make(chan community.Signal, 1)
	node := b.offers("text.upper", func(_ context.Context, s community.Signal) (community.Reply, error) {
		got <- s
		return community.Reply{Data: []byte(strings.ToUpper(string(s.Data))), ContentType: "text/plain"}, nil
	}, a)
	s := community.Signal{Data: []byte("cut"), ContentType: "text/plain", Requester: []string{"user"},
		OnBehalf: make([]byte, community.MaxOnBehalf)}
	r, err := a.Invoke(in(t, patience), node.ID, "text.upper", s)
	if err != nil {
		t.Fatal(err)
	}
	if string(r.Data) != "CUT" || r.ContentType != "text/plain" {
		t.Errorf("got reply %q of type %q, want CUT of text/plain", r.Data, r.ContentType)
	}
	s.Requester = []string{string(a.id), "user"}
	if diff := cmp.Diff(s, <-got); diff != "" {
		t.Errorf("the provider got another payload (-want +got):\n%s", diff)
	}
	if r, err = a.Invoke(in(t, patience), node.ID, "text.upper", community.Signal{}); err != nil || len(r.Data) != 0 {
		t.Errorf("an empty payload was answered with %q, %v", r.Data, err)
	}
}

// callsGoBothWays has an agent call back while it is being called.
func callsGoBothWays(t *testing.T, l *caseLAN) {
	a, b := l.up("a"), l.up("b")
	a.spawns("asker", func(_ context.Context, s community.Signal) (community.Reply, error) {
		return community.Reply{Data: append([]byte("back "), s.Data...)}, nil
	})
	asker := b.finds("asker")
	b.spawns("worker", func(ctx context.Context, s community.Signal) (community.Reply, error) {
		return b.Send(ctx, asker.ID, s)
	})
	r, err := a.Send(in(t, patience), a.finds("worker").ID, work("and forth"))
	if err != nil || string(r.Data) != "back and forth" {
		t.Errorf("got %q, %v", r.Data, err)
	}
}

// manyCallersAtOnce has nobody answered before all are there.
func manyCallersAtOnce(t *testing.T, l *caseLAN) {
	const callers, calls = 64, 8
	a, b := l.up("a"), l.up("b")
	var arrived atomic.Int32
	all := make(chan bool)
	node := b.offers("echo", func(ctx context.Context, s community.Signal) (community.Reply, error) {
		if arrived.Add(1) == callers {
			close(all)
		}
		select {
		case <-all:
			return echo(ctx, s)
		case <-ctx.Done():
			return community.Reply{}, ctx.Err()
		}
	}, a)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for j := range calls {
				want := fmt.Sprint(i, " ", j)
				r, err := a.Invoke(in(t, patience), node.ID, "echo", work(want))
				if err != nil || string(r.Data) != want {
					t.Errorf("caller %d got %q, %v; want %q", i, r.Data, err, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

func cancellationReachesTheAgent(t *testing.T, l *caseLAN) {
	a, b := l.up("a"), l.up("b")
	begun, ended := make(chan bool), make(chan error, 1)
	b.spawns("worker", func(ctx context.Context, _ community.Signal) (community.Reply, error) {
		close(begun)
		<-ctx.Done()
		ended <- ctx.Err()
		return community.Reply{}, ctx.Err()
	})
	m := a.finds("worker")
	ctx, cancel := context.WithCancel(in(t, patience))
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, err := a.Send(ctx, m.ID, work("")); !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled call returned %v", err)
	}
	<-begun
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the agent's context ended with %v", err)
		}
	case <-time.After(time.Second + l.slack):
		t.Fatal("the agent goes on a second after the caller gave up")
	}
}

func deadlineReachesTheAgent(t *testing.T, l *caseLAN) {
	a, b := l.up("a"), l.up("b")
	left := make(chan time.Duration, 1)
	b.spawns("worker", func(ctx context.Context, _ community.Signal) (community.Reply, error) {
		d, _ := ctx.Deadline()
		left <- time.Until(d)
		<-ctx.Done()
		return community.Reply{}, ctx.Err()
	})
	m := a.finds("worker")
	begun := time.Now()
	if _, err := a.Send(in(t, time.Second), m.ID, work("")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the late call returned %v", err)
	}
	l.within(time.Second, begun, "a call with a deadline of 1s")
	if d := <-left; d <= 0 || d > time.Second {
		t.Errorf("the agent was given %v, want at most 1s", d)
	}
}

func errorsComeThrough(t *testing.T, l *caseLAN) {
	a, b := l.up("a"), l.up("b")
	var answer error
	node := b.offers("fail", func(context.Context, community.Signal) (community.Reply, error) {
		return community.Reply{}, answer
	}, a)
	all := []error{
		community.ErrNotFound, community.ErrRemoteMember, community.ErrLocalMember, community.ErrNotAccepted,
		community.ErrNotProvided, community.ErrBusy, community.ErrStopped, community.ErrAgentFailed,
		community.ErrUnavailable, community.ErrDenied, community.ErrTooLarge, community.ErrInvalid, context.DeadlineExceeded,
	}
	for _, want := range all {
		answer = fmt.Errorf("secret: %w", want)
		_, err := a.Invoke(in(t, patience), node.ID, "fail", community.Signal{})
		for _, s := range all {
			if errors.Is(err, s) != (s == want) {
				t.Errorf("%q arrived as %q, which is %q: %v", want, err, s, errors.Is(err, s))
			}
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q tells what is not for others", err)
		}
	}
	answer = community.Explain(community.ErrDenied, "only on Sundays")
	if _, err := a.Invoke(in(t, patience), node.ID, "fail", community.Signal{}); !errors.Is(err, community.ErrDenied) ||
		!strings.Contains(err.Error(), "only on Sundays") {
		t.Errorf("an explained refusal arrived as %v", err)
	}
	answer = errors.New("secret")
	if _, err := a.Invoke(in(t, patience), node.ID, "fail", community.Signal{}); !errors.Is(err, community.ErrAgentFailed) ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("an unknown error arrived as %v, want ErrAgentFailed and no more", err)
	}
}

func panicIsAgentFailed(t *testing.T, l *caseLAN) {
	a, b := l.up("a"), l.up("b")
	broken := func(_ context.Context, s community.Signal) (community.Reply, error) {
		if string(s.Data) == "break" {
			panic("secret")
		}
		return community.Reply{Data: []byte("well")}, nil
	}
	node := b.offers("fragile", broken, a)
	b.spawns("worker", broken)
	m := a.finds("worker")
	for what, call := range map[string]func(data string) (community.Reply, error){
		"agent": func(data string) (community.Reply, error) { return a.Send(in(t, patience), m.ID, work(data)) },
		"provider": func(data string) (community.Reply, error) {
			return a.Invoke(in(t, patience), node.ID, "fragile", work(data))
		},
	} {
		if _, err := call("break"); !errors.Is(err, community.ErrAgentFailed) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: a panic arrived as %v, want ErrAgentFailed and no more", what, err)
		}
		if r, err := call("go on"); err != nil || string(r.Data) != "well" {
			t.Errorf("%s: the next call got %q, %v", what, r.Data, err)
		}
	}
}

func largeMessageIsRefused(t *testing.T, l *caseLAN) {
	a, b := l.up("a", func(cfg *community.Config) { cfg.MaxMessage = 1 << 30 }), l.up("b")
	b.spawns("worker", echo)
	node := b.offers("large", func(context.Context, community.Signal) (community.Reply, error) {
		return community.Reply{Data: make([]byte, 2<<20)}, nil
	}, a)
	m := a.finds("worker")
	release := make(chan bool)
	slow := b.spawns("slow", func(context.Context, community.Signal) (community.Reply, error) {
		<-release
		return community.Reply{Data: []byte("still here")}, nil
	})
	a.finds("slow")
	var meanwhile sync.WaitGroup
	meanwhile.Go(func() {
		if r, err := a.Send(in(t, patience), slow.ID, work("")); err != nil || string(r.Data) != "still here" {
			t.Errorf("a call beside the large ones got %q, %v", r.Data, err)
		}
	})
	for _, size := range []int{2 << 20, 100 << 20} {
		_, err := a.Send(in(t, patience), m.ID, community.Signal{Perception: "work", Data: make([]byte, size)})
		if !errors.Is(err, community.ErrTooLarge) {
			t.Errorf("%d MiB: got %v, want ErrTooLarge", size>>20, err)
		}
		if r, err := a.Send(in(t, patience), m.ID, work("small")); err != nil || string(r.Data) != "small" {
			t.Errorf("the next call got %q, %v", r.Data, err)
		}
	}
	if _, err := a.Invoke(in(t, patience), node.ID, "large", community.Signal{}); !errors.Is(err, community.ErrTooLarge) {
		t.Errorf("a large reply: got %v, want ErrTooLarge", err)
	}
	full := strings.Repeat("x", 1<<20)
	if r, err := a.Send(in(t, patience), m.ID, work(full)); err != nil || string(r.Data) != full {
		t.Errorf("the largest that is allowed: got %d bytes, %v", len(r.Data), err)
	}
	close(release)
	meanwhile.Wait()
}

// fullMailboxIsBusy has an agent work on one signal, with room for one more: of four that come then,
// three are refused, at once.
func fullMailboxIsBusy(t *testing.T, l *caseLAN) {
	a, b := l.up("a"), l.up("b", func(cfg *community.Config) { cfg.System = actor.NewSystem(actor.Config{Mailbox: 1}) })
	begun, release := make(chan bool, 2), make(chan bool)
	m := b.spawns("worker", func(context.Context, community.Signal) (community.Reply, error) {
		begun <- true
		<-release
		return community.Reply{}, nil
	})
	a.finds("worker")
	outcomes := make(chan error, 5)
	var calls sync.WaitGroup
	send := func() {
		calls.Go(func() {
			_, err := a.Send(in(t, patience), m.ID, work(""))
			outcomes <- err
		})
	}
	send()
	<-begun
	for range 4 {
		send()
	}
	for range 3 {
		if err := <-outcomes; !errors.Is(err, community.ErrBusy) {
			t.Errorf("got %v, want ErrBusy", err)
		}
	}
	close(release)
	calls.Wait()
	for range 2 {
		if err := <-outcomes; err != nil {
			t.Errorf("who was let in got %v", err)
		}
	}
}

func nobodyIsAllowedByDefault(t *testing.T, l *caseLAN) {
	a, b := l.up("a"), l.up("b", func(cfg *community.Config) { cfg.Authorize = nil })
	called := func(context.Context, community.Signal) (community.Reply, error) {
		t.Error("b was called")
		return community.Reply{}, nil
	}
	node := b.offers("text.upper", called, a)
	b.spawns("worker", called)
	if _, err := a.Send(in(t, patience), a.finds("worker").ID, work("")); !errors.Is(err, community.ErrDenied) {
		t.Errorf("send: got %v, want ErrDenied", err)
	}
	if _, err := a.Invoke(in(t, patience), node.ID, "text.upper", community.Signal{}); !errors.Is(err, community.ErrDenied) {
		t.Errorf("invoke: got %v, want ErrDenied", err)
	}
}
