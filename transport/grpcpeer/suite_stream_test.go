package grpcpeer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"symbio/community"

	"github.com/google/go-cmp/cmp"
)

// streamCases are for networks that carry updates of calls under way.
var streamCases = []testCase{
	{"UpdatesComeInOrderBeforeTheAnswer", updatesComeInOrderBeforeTheAnswer},
	{"AgentsReportToo", agentsReportToo},
	{"SlowListenerHoldsUpNobody", slowListenerHoldsUpNobody},
	{"OutputIsNotLost", outputIsNotLost},
	{"CancellingAListenedCallReachesTheProvider", cancellingAListenedCallReachesTheProvider},
	{"LossInTheMiddleIsUnavailableOnce", lossInTheMiddleIsUnavailableOnce},
	{"RefusedBeforeAnyUpdate", refusedBeforeAnyUpdate},
	{"TooMuchOutputEndsTheCall", tooMuchOutputEndsTheCall},
	{"NothingIsHeardAfterTheAnswer", nothingIsHeardAfterTheAnswer},
	{"CallBeginsWhenItsAcceptanceIsConfirmed", callBeginsWhenItsAcceptanceIsConfirmed},
}

// ear hears updates.
type ear struct {
	progress []string
	output   bytes.Buffer
	missed   uint64
}

func (e *ear) hear(u community.Update) {
	e.missed += u.Missed
	if u.Output != nil {
		e.output.Write(u.Output)
		return
	}
	e.progress = append(e.progress, fmt.Sprint(u.Progress.Message, " ", u.Progress.Done, "/", u.Progress.Total))
}

func updatesComeInOrderBeforeTheAnswer(t *testing.T, l *caseLAN) {
	a, b := l.up("a"), l.up("b")
	chain := make(chan []string, 1)
	node := b.offers("count", func(ctx context.Context, s community.Signal) (community.Reply, error) {
		chain <- s.Requester
		for i := range 10 {
			community.Report(ctx, community.Progress{Message: fmt.Sprint("step ", i), Done: float64(i), Total: 10})
			if err := community.Emit(ctx, []byte(fmt.Sprint(i, "é ")), "text/plain"); err != nil {
				return community.Reply{}, err
			}
		}
		return community.Reply{Data: []byte("counted"), ContentType: "text/plain"}, nil
	}, a)
	var e ear
	var types []string
	r, err := a.InvokeStream(in(t, patience), node.ID, "count", community.Signal{Requester: []string{"user"}}, func(u community.Update) {
		e.hear(u)
		if u.Output != nil {
			types = append(types, u.ContentType)
		}
	})
	if err != nil || string(r.Data) != "counted" || r.ContentType != "text/plain" {
		t.Errorf("the answer is %q %s, %v", r.Data, r.ContentType, err)
	}
	var want []string
	for i := range 10 {
		want = append(want, fmt.Sprintf("step %d %d/10", i, i))
	}
	if diff := cmp.Diff(want, e.progress); diff != "" || e.missed != 0 {
		t.Errorf("other progress was heard (-want +got), %d missed:\n%s", e.missed, diff)
	}
	if got := e.output.String(); got != "0é 1é 2é 3é 4é 5é 6é 7é 8é 9é " {
		t.Errorf("the output was %q", got)
	}
	if len(types) == 0 || types[0] != "text/plain" {
		t.Errorf("the output is of types %v", types)
	}
	if diff := cmp.Diff([]string{string(a.id), "user"}, <-chain); diff != "" {
		t.Errorf("another chain of requesters (-want +got):\n%s", diff)
	}
}

// agentsReportToo has a provider give its work to an agent of its node.
func agentsReportToo(t *testing.T, l *caseLAN) {
	a, b := l.up("a"), l.up("b")
	m := b.spawns("worker", func(ctx context.Context, s community.Signal) (community.Reply, error) {
		community.Report(ctx, community.Progress{Message: "at work"})
		community.Report(community.WithoutListener(ctx), community.Progress{Message: "not for you"})
		return echo(ctx, s)
	})
	node := b.offers("work", func(ctx context.Context, _ community.Signal) (community.Reply, error) {
		return b.Send(ctx, m.ID, work("done"))
	}, a)
	var e ear
	r, err := a.InvokeStream(in(t, patience), node.ID, "work", community.Signal{}, e.hear)
	if err != nil || string(r.Data) != "done" {
		t.Errorf("got %q, %v", r.Data, err)
	}
	if diff := cmp.Diff([]string{"at work 0/0"}, e.progress); diff != "" {
		t.Errorf("other progress was heard (-want +got):\n%s", diff)
	}
}

// slowListenerHoldsUpNobody: neither the provider that reports to it, nor other calls.
func slowListenerHoldsUpNobody(t *testing.T, l *caseLAN) {
	const reports = 20_000
	a, b := l.up("a"), l.up("b")
	worked := make(chan time.Duration, 1)
	node := b.offers("hasty", func(ctx context.Context, _ community.Signal) (community.Reply, error) {
		begun := time.Now()
		for i := range reports {
			community.Report(ctx, community.Progress{Message: strings.Repeat("x", 400), Done: float64(i + 1), Total: reports})
		}
		worked <- time.Since(begun)
		return community.Reply{Data: []byte("done")}, nil
	}, a)
	b.offers("echo", echo, a)
	release := make(chan bool)
	var last community.Progress
	var heard, missed uint64
	var slow sync.WaitGroup
	slow.Go(func() {
		r, err := a.InvokeStream(in(t, patience), node.ID, "hasty", community.Signal{}, func(u community.Update) {
			<-release
			last, heard, missed = u.Progress, heard+1, missed+u.Missed
		})
		if err != nil || string(r.Data) != "done" {
			t.Errorf("the listened call got %q, %v", r.Data, err)
		}
	})
	if took := <-worked; took > time.Second+l.slack {
		t.Errorf("the provider needed %v for its reports", took)
	}
	for range 20 {
		if r, err := a.Invoke(in(t, patience), node.ID, "echo", work("beside")); err != nil || string(r.Data) != "beside" {
			t.Errorf("a call beside it got %q, %v", r.Data, err)
		}
	}
	close(release)
	slow.Wait()
	if last.Done != reports || heard+missed != reports || heard > 200 {
		t.Errorf("%d reports were heard and %d missed of %d, the last one was %g", heard, missed, reports, last.Done)
	}
}

// outputIsNotLost has more output than is held anywhere on the way, for a listener that is slow at first.
func outputIsNotLost(t *testing.T, l *caseLAN) {
	a, b := l.up("a"), l.up("b")
	want := bytes.Repeat([]byte("0123456789abcde\n"), 4<<20/16)
	var emitted sync.WaitGroup
	emitted.Add(1)
	done := make(chan bool)
	node := b.offers("print", func(ctx context.Context, _ community.Signal) (community.Reply, error) {
		defer emitted.Done()
		err := community.Emit(ctx, want, "text/plain")
		close(done)
		return community.Reply{Data: []byte("done")}, err
	}, a)
	var e ear
	begun := false
	r, err := a.InvokeStream(in(t, patience), node.ID, "print", community.Signal{}, func(u community.Update) {
		if !begun {
			begun = true
			select {
			case <-done:
				t.Error("the provider did not wait")
			case <-time.After(300 * time.Millisecond):
			}
		}
		if len(u.Output) > 64<<10 {
			t.Errorf("a part of %d bytes", len(u.Output))
		}
		e.hear(u)
	})
	if err != nil || string(r.Data) != "done" {
		t.Errorf("got %q, %v", r.Data, err)
	}
	if !bytes.Equal(e.output.Bytes(), want) {
		t.Errorf("%d bytes of output arrived, want %d, the same", e.output.Len(), len(want))
	}
	emitted.Wait()
}

func cancellingAListenedCallReachesTheProvider(t *testing.T, l *caseLAN) {
	a, b := l.up("a"), l.up("b")
	ended := make(chan error, 1)
	node := b.offers("endless", func(ctx context.Context, _ community.Signal) (community.Reply, error) {
		community.Report(ctx, community.Progress{Message: "begun"})
		<-ctx.Done()
		ended <- ctx.Err()
		return community.Reply{}, ctx.Err()
	}, a)
	ctx, cancel := context.WithCancel(in(t, patience))
	if _, err := a.InvokeStream(ctx, node.ID, "endless", community.Signal{}, func(community.Update) { cancel() }); !errors.Is(err,
		context.Canceled) {
		t.Errorf("the cancelled call returned %v", err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the provider's context ended with %v", err)
		}
	case <-time.After(time.Second + l.slack):
		t.Fatal("the provider goes on a second after the caller gave up")
	}
}

func lossInTheMiddleIsUnavailableOnce(t *testing.T, l *caseLAN) {
	killer, ok := l.fixture.(Killer)
	if !ok {
		t.Skip("this fixture cannot kill a node")
	}
	a, b := l.up("a"), l.up("b")
	node := b.offers("endless", func(ctx context.Context, _ community.Signal) (community.Reply, error) {
		for ctx.Err() == nil {
			community.Report(ctx, community.Progress{Message: "still here"})
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
		}
		return community.Reply{}, ctx.Err()
	}, a)
	heard := 0
	var since time.Time
	_, err := a.InvokeStream(in(t, patience), node.ID, "endless", community.Signal{}, func(community.Update) {
		if heard++; heard == 3 {
			since = time.Now()
			killer.Kill(b.id)
		}
	})
	if !errors.Is(err, community.ErrUnavailable) || heard < 3 {
		t.Errorf("after %d updates the call returned %v, want ErrUnavailable", heard, err)
	}
	l.within(silenceBound, since, "the end of the call")
}

func refusedBeforeAnyUpdate(t *testing.T, l *caseLAN) {
	a, b := l.up("a"), l.up("b", func(cfg *community.Config) {
		cfg.Authorize = func(_ community.Peer, c community.Call) error {
			if c.Listen != nil {
				c.Listen(community.Update{Progress: community.Progress{Message: "a word before the verdict"}})
			}
			return errors.New("no")
		}
	})
	node := b.offers("secret", func(context.Context, community.Signal) (community.Reply, error) {
		t.Error("b was called")
		return community.Reply{}, nil
	}, a)
	_, err := a.InvokeStream(in(t, patience), node.ID, "secret", community.Signal{},
		func(u community.Update) { t.Errorf("a heard %+v", u) })
	if !errors.Is(err, community.ErrDenied) {
		t.Errorf("got %v, want ErrDenied", err)
	}
	if n := b.Refusals(a.id)[community.RefusedDenied]; n != 1 {
		t.Errorf("b counted %d refusals, want 1", n)
	}
}

// tooMuchOutputEndsTheCall by the provider's limit, and by the caller's when the provider has a larger one.
func tooMuchOutputEndsTheCall(t *testing.T, l *caseLAN) {
	limit := func(n int) func(*community.Config) { return func(cfg *community.Config) { cfg.MaxPartial = n } }
	a, b, c := l.up("a", limit(256<<10)), l.up("b", limit(128<<10)), l.up("c", limit(64<<20))
	for _, p := range []*place{b, c} {
		ended := make(chan error, 1)
		name := "flood-" + p.Name()
		node := p.offers(name, func(ctx context.Context, _ community.Signal) (community.Reply, error) {
			for range 512 {
				if err := community.Emit(ctx, make([]byte, 4<<10), ""); err != nil {
					ended <- err
					break
				}
			}
			return community.Reply{Data: []byte("done")}, nil // it does not care
		}, a)
		var e ear
		_, err := a.InvokeStream(in(t, patience), node.ID, name, community.Signal{}, e.hear)
		if !errors.Is(err, community.ErrTooLarge) {
			t.Errorf("%s: got %v, want ErrTooLarge", p.Name(), err)
		}
		if e.output.Len() > 256<<10 {
			t.Errorf("%s: %d bytes were heard, over the caller's limit", p.Name(), e.output.Len())
		}
		select {
		case err := <-ended:
			if p == b && !errors.Is(err, community.ErrTooLarge) {
				t.Errorf("its provider was told %v, want ErrTooLarge", err)
			}
		case <-time.After(time.Second + l.slack):
			t.Errorf("%s: the provider goes on", p.Name())
		}
	}
}

// nothingIsHeardAfterTheAnswer, whatever a provider does with its context.
func nothingIsHeardAfterTheAnswer(t *testing.T, l *caseLAN) {
	a, b := l.up("a"), l.up("b")
	kept := make(chan context.Context, 1)
	node := b.offers("quick", func(ctx context.Context, _ community.Signal) (community.Reply, error) {
		kept <- context.WithoutCancel(ctx)
		return community.Reply{Data: []byte("done")}, nil
	}, a)
	var mu sync.Mutex
	heard := 0
	r, err := a.InvokeStream(in(t, patience), node.ID, "quick", community.Signal{}, func(community.Update) {
		mu.Lock()
		defer mu.Unlock()
		heard++
	})
	if err != nil || string(r.Data) != "done" {
		t.Errorf("got %q, %v", r.Data, err)
	}
	ctx := <-kept
	community.Report(ctx, community.Progress{Message: "too late"})
	if err := community.Emit(ctx, []byte("too late"), ""); err == nil {
		t.Error("output after the answer was taken in")
	}
	if r, err := a.InvokeStream(in(t, patience), node.ID, "quick", community.Signal{}, nil); err != nil || string(r.Data) != "done" {
		t.Errorf("without a listener: got %q, %v", r.Data, err)
	}
	community.Report(<-kept, community.Progress{Message: "to nobody"})
	mu.Lock()
	defer mu.Unlock()
	if heard != 0 {
		t.Errorf("%d updates were heard", heard)
	}
}

// traceTravels with calls of each kind, and on from their provider.
func traceTravels(t *testing.T, l *caseLAN) {
	a, b := l.up("a"), l.up("b")
	want := community.ParseTrace("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "x=y")
	got := make(chan community.Trace, 2)
	note := func(ctx context.Context, s community.Signal) (community.Reply, error) {
		got <- community.TraceOf(ctx)
		return echo(ctx, s)
	}
	back := a.spawns("back", note)
	b.finds("back")
	node := b.offers("traced", func(ctx context.Context, s community.Signal) (community.Reply, error) {
		got <- community.TraceOf(ctx)
		return b.Send(ctx, back.ID, work("on"))
	}, a)
	ctx := community.WithTrace(in(t, patience), want)
	for kind, call := range map[string]func() error{
		"Invoke": func() error { _, err := a.Invoke(ctx, node.ID, "traced", community.Signal{}); return err },
		"InvokeStream": func() error {
			_, err := a.InvokeStream(ctx, node.ID, "traced", community.Signal{}, func(community.Update) {})
			return err
		},
	} {
		if err := call(); err != nil {
			t.Fatal(err)
		}
		for _, where := range []string{"the provider", "whom it called"} {
			if trace := <-got; trace != want {
				t.Errorf("%s: %s has the trace %q %q", kind, where, trace.Parent(), trace.State())
			}
		}
	}
	if _, err := a.Invoke(in(t, patience), node.ID, "traced", community.Signal{}); err != nil {
		t.Fatal(err)
	}
	if trace := <-got; trace != (community.Trace{}) {
		t.Errorf("a call without a trace has %q", trace.Parent())
	}
}

// callBeginsWhenItsAcceptanceIsConfirmed: what is refused, or sent to a node that is frozen, is not accepted, and does not
// begin, also not later.
func callBeginsWhenItsAcceptanceIsConfirmed(t *testing.T, l *caseLAN) {
	a, b := l.up("a"), l.up("b")
	var begun atomic.Int64
	provide := func(ctx context.Context, s community.Signal) (community.Reply, error) {
		begun.Add(1)
		community.Report(ctx, community.Progress{Message: "to nobody"})
		return community.Reply{Data: s.Data}, nil
	}
	b.offersAs(community.Capability{Name: "work"}, provide, a, community.WithConcurrency(1))
	m := b.spawns("worker", provide)
	a.finds("worker")
	hold, let := make(chan struct{}), make(chan struct{})
	errNo := errors.New("no")
	call := func(accept func() error) error {
		_, err := a.Invoke(community.WithAcceptance(in(t, patience), accept), community.MemberID(b.id), "work", community.Signal{})
		return err
	}
	accepted := 0
	count := func() error { accepted++; return nil }
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		if err := call(func() error { close(hold); <-let; return nil }); err != nil || begun.Load() != 1 {
			t.Errorf("the first call: begun %d times, %v", begun.Load(), err)
		}
	})
	<-hold
	if err := call(count); !errors.Is(err, community.ErrBusy) || accepted != 0 || begun.Load() != 0 {
		t.Errorf("while another one has the place: accepted %d times, begun %d, %v", accepted, begun.Load(), err)
	}
	close(let)
	wg.Wait()
	if err := call(func() error { return errNo }); !errors.Is(err, errNo) || begun.Load() != 1 {
		t.Errorf("not confirmed: begun %d times, %v", begun.Load(), err)
	}
	<-time.After(time.Second) // until its place is free
	if err := call(count); err != nil || accepted != 1 || begun.Load() != 2 {
		t.Errorf("confirmed: accepted %d times, begun %d, %v", accepted, begun.Load(), err)
	}
	if r, err := a.Send(community.WithAcceptance(in(t, patience), count), m.ID, work("done")); err != nil || string(r.Data) != "done" ||
		accepted != 2 {
		t.Errorf("a signal: accepted %d times, %q, %v", accepted, r.Data, err)
	}
	freezer, ok := l.fixture.(Freezer)
	if !ok {
		return
	}
	freezer.Freeze(b.id)
	if err := call(count); !errors.Is(err, community.ErrUnavailable) || accepted != 2 {
		t.Errorf("to a frozen node: accepted %d times, %v", accepted, err)
	}
	freezer.Wake(b.id)
	a.node(b)
	synctest.Wait()
	if begun.Load() != 3 {
		t.Errorf("begun %d times", begun.Load())
	}
}
