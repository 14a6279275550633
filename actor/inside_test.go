package actor

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// What is tested here lasts an instant, too short to be met from outside, or depends on the number of processors.

func TestGateNeverExceedsItsLimit(t *testing.T) {
	for range 300 {
		g := gate{limit: 500}
		var in atomic.Int32
		var rivals sync.WaitGroup
		for range 4 {
			rivals.Go(func() {
				for g.acquire() == nil {
					in.Add(1)
				}
			})
		}
		rivals.Wait()
		if got := in.Load(); got != 500 {
			t.Fatalf("%d came in, want 500", got)
		}
	}
}

func TestClosedGateOnlyEmpties(t *testing.T) {
	g := gate{limit: 2}
	for range 2 {
		if err := g.acquire(); err != nil {
			t.Fatal(err)
		}
	}
	if !g.close() || g.close() {
		t.Error("want the first close to be the one that closed, and only it")
	}
	if err := g.acquire(); err != ErrStopped {
		t.Errorf("enter: got %v, want ErrStopped rather than ErrBusy", err)
	}
	if left := g.release(); left != 1 || g.empty() {
		t.Errorf("got %d left, empty %v; want 1, false", left, g.empty())
	}
	if left := g.release(); left != 0 || !g.empty() || !g.closed() {
		t.Errorf("got %d left, empty %v, closed %v; want 0, true, true", left, g.empty(), g.closed())
	}
}

func TestMessageThatBeginsWhileItsActorIsKilledIsCancelled(t *testing.T) {
	s := NewSystem(Config{})
	r := s.newRef(Props{})
	r.behavior = Func(func(ctx context.Context, _ any) (any, error) { return nil, context.Cause(ctx) })
	r.kill()
	c := &call{ref: r, ctx: t.Context(), answer: make(chan outcome, 1)}
	r.receive(c, func(err error) { t.Error(err) })
	if o := <-c.answer; !errors.Is(o.err, ErrStopped) {
		t.Errorf("Receive's context ended with %v, want ErrStopped", o.err)
	}
}

func TestAsManyGoroutinesStayIdleAsMay(t *testing.T) {
	d := newDispatcher(new(sync.WaitGroup))
	if _, ok := d.acquireIdle(); ok {
		t.Error("a goroutine stays though there is no actor")
	}
	d.open()
	for range d.maxIdle {
		if _, ok := d.acquireIdle(); !ok {
			t.Fatal("fewer goroutines stay than may")
		}
	}
	if _, ok := d.acquireIdle(); ok {
		t.Errorf("more than %d goroutines stay", d.maxIdle)
	}
	d.releaseIdle()
	if _, ok := d.acquireIdle(); !ok {
		t.Error("none stays for the one that has work again")
	}
}

func TestLinesOfProtoActorAreThrottledAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := engineLogger(slog.New(slog.NewTextHandler(&log, nil))).With("k", "v").WithGroup("g")
		lines := func(n int) string {
			log.Reset()
			for range n {
				l.Warn("x")
			}
			return strings.TrimSpace(regexp.MustCompile(`(?m)^time=\S+ `).ReplaceAllString(log.String(), ""))
		}
		line := "level=WARN msg=x lib=proto.actor k=v"
		check := func(got string, want ...string) {
			t.Helper()
			if want := strings.Join(want, "\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		}
		check(lines(maxLinesPerSecond+2), slices.Repeat([]string{line}, maxLinesPerSecond)...)
		time.Sleep(time.Second)
		check(lines(2), line+" g.unlogged=2", line)
	})
}
