package community_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"symbio/community"

	"github.com/google/go-cmp/cmp"
)

// heard is what one caller heard of its call.
type heard struct {
	mu  sync.Mutex
	all []community.Update
}

func (h *heard) hear(u community.Update) {
	h.mu.Lock()
	defer h.mu.Unlock()
	u.Output = bytes.Clone(u.Output)
	h.all = append(h.all, u)
}

// serving offers a capability and returns a function that calls it as a peer does that listens.
func serving(t *testing.T, cfg community.Config, provide community.Provider) func(ctx context.Context,
	listen func(community.Update)) (community.Reply, error) {
	t.Helper()
	cfg.Authorize = anybody
	c, _ := run(t, cfg)
	if err := c.Offer(community.Capability{Name: "long"}, provide); err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, listen func(community.Update)) (community.Reply, error) {
		return c.Serve(ctx, stranger, community.Call{Capability: "long", Listen: listen})
	}
}

func TestProgressIsThinnedToWhatAPersonReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const seconds, rate = 10, 1000
		call := serving(t, community.Config{}, func(ctx context.Context, _ community.Signal) (community.Reply, error) {
			for i := range seconds * rate {
				community.Report(ctx, community.Progress{Message: fmt.Sprint(i)})
				time.Sleep(time.Second / rate)
			}
			return community.Reply{}, nil
		})
		var h heard
		if _, err := call(t.Context(), h.hear); err != nil {
			t.Fatal(err)
		}
		var missed uint64
		for _, u := range h.all {
			missed += u.Missed
		}
		if n := len(h.all); n < 20*seconds || n > 40+20*seconds+1 {
			t.Errorf("%d reports were told in %d s, want 20 a second and some more at first", n, seconds)
		}
		if int(missed)+len(h.all) != seconds*rate {
			t.Errorf("%d were told and %d missed of %d", len(h.all), missed, seconds*rate)
		}
		if last := h.all[len(h.all)-1].Progress.Message; last != fmt.Sprint(seconds*rate-1) {
			t.Errorf("the last one told is %s", last)
		}
	})
}

func TestLoneReportIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var at []time.Duration
		call := serving(t, community.Config{}, func(ctx context.Context, _ community.Signal) (community.Reply, error) {
			for range 45 { // five over what may come at once
				community.Report(ctx, community.Progress{Message: "x"})
				synctest.Wait()
			}
			time.Sleep(time.Second)
			return community.Reply{}, nil
		})
		if _, err := call(t.Context(), func(community.Update) { at = append(at, time.Since(begun)) }); err != nil {
			t.Fatal(err)
		}
		if len(at) != 41 || at[39] != 0 || at[40] > 50*time.Millisecond {
			t.Errorf("%d were told, at %v; want 40 at once, and the newest in 50ms", len(at), at)
		}
	})
}

func TestReportsArePrintable(t *testing.T) {
	for name, tt := range map[string]struct{ said, want community.Progress }{
		"plain":        {community.Progress{Message: "half", Done: 1, Total: 2}, community.Progress{Message: "half", Done: 1, Total: 2}},
		"escapes":      {community.Progress{Message: "\x1b[31mred\x07\nline\u202e\xff"}, community.Progress{Message: "[31mred line?"}},
		"no number":    {community.Progress{Done: math.NaN(), Total: 1}, community.Progress{}},
		"no total":     {community.Progress{Done: 1, Total: math.NaN()}, community.Progress{}},
		"endless":      {community.Progress{Done: 1, Total: math.Inf(1)}, community.Progress{}},
		"below zero":   {community.Progress{Done: -1, Total: 10}, community.Progress{}},
		"a total only": {community.Progress{Total: 10}, community.Progress{Total: 10}},
		"long":         {community.Progress{Message: strings.Repeat("é", 1000)}, community.Progress{Message: strings.Repeat("é", 250) + "…"}},
	} {
		call := serving(t, community.Config{}, func(ctx context.Context, _ community.Signal) (community.Reply, error) {
			community.Report(ctx, tt.said)
			return community.Reply{}, nil
		})
		var h heard
		if _, err := call(t.Context(), h.hear); err != nil || len(h.all) != 1 {
			t.Fatalf("%s: heard %v, %v", name, h.all, err)
		}
		if diff := cmp.Diff(tt.want, h.all[0].Progress); diff != "" {
			t.Errorf("%s: other progress is told (-want +got):\n%s", name, diff)
		}
	}
}

// The queue of a caller that takes nothing is bounded: reports are replaced, output waits.
func TestSlowCallerHoldsUpOutputAndNotReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		emitted, reported := 0, false
		call := serving(t, community.Config{}, func(ctx context.Context, _ community.Signal) (community.Reply, error) {
			for range 100_000 {
				community.Report(ctx, community.Progress{Message: "x"})
			}
			reported = true
			for range 1000 {
				if err := community.Emit(ctx, make([]byte, 1000), ""); err != nil {
					return community.Reply{}, err
				}
				emitted += 1000
			}
			return community.Reply{}, nil
		})
		release := make(chan bool)
		var h heard
		var done sync.WaitGroup
		done.Go(func() {
			if _, err := call(t.Context(), func(u community.Update) { <-release; h.hear(u) }); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if !reported || emitted < 60_000 || emitted > 70_000 {
			t.Errorf("reported %v, %d bytes of output taken in; want it to wait at 64 KiB", reported, emitted)
		}
		close(release)
		done.Wait()
		output := 0
		for _, u := range h.all {
			if output += len(u.Output); len(u.Output) > 32<<10 {
				t.Errorf("a part of %d bytes", len(u.Output))
			}
		}
		if output != 1_000_000 {
			t.Errorf("%d bytes of output were told", output)
		}
	})
}

func TestTextIsNotCutInACharacter(t *testing.T) {
	want := strings.Repeat("€", 100_000)
	call := serving(t, community.Config{}, func(ctx context.Context, _ community.Signal) (community.Reply, error) {
		return community.Reply{}, community.Emit(ctx, []byte(want), "text/plain")
	})
	var got []byte
	if _, err := call(t.Context(), func(u community.Update) {
		if !utf8.Valid(u.Output) {
			t.Error("a part is cut in a character")
		}
		got = append(got, u.Output...)
	}); err != nil || string(got) != want {
		t.Errorf("%d bytes arrived, %v", len(got), err)
	}
}

// An answer counts only with all the output before it.
func TestAnswerWithoutItsOutputIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var served context.Context
		call := serving(t, community.Config{}, func(ctx context.Context, _ community.Signal) (community.Reply, error) {
			served = ctx
			_ = community.Emit(ctx, make([]byte, 1), "a/b")
			_ = community.Emit(ctx, make([]byte, 1), "c/d")
			return community.Reply{Data: []byte("done")}, nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := call(ctx, func(community.Update) { <-served.Done() }) // the second piece would be too late
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
	})
}

func TestEmitEndsWithItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var why error
		emitted := make(chan struct{})
		call := serving(t, community.Config{}, func(ctx context.Context, _ community.Signal) (community.Reply, error) {
			defer close(emitted)
			why = community.Emit(ctx, make([]byte, 1<<20), "")
			return community.Reply{}, why
		})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := call(ctx, func(community.Update) { <-emitted }) // there is no room for the rest before
		if !errors.Is(err, context.Canceled) || !errors.Is(why, context.Canceled) {
			t.Errorf("the call ended with %v, Emit with %v", err, why)
		}
	})
}

func TestManyMayReportAtOnce(t *testing.T) {
	call := serving(t, community.Config{}, func(ctx context.Context, _ community.Signal) (community.Reply, error) {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 200 {
					community.Report(ctx, community.Progress{Message: "x"})
					if err := community.Emit(ctx, []byte("12345678"), ""); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		return community.Reply{}, nil
	})
	output := 0
	if _, err := call(t.Context(), func(u community.Update) { output += len(u.Output) }); err != nil || output != 8*200*8 {
		t.Errorf("%d bytes of output were told, %v", output, err)
	}
}

func TestReportsWithoutListenerDoNothing(t *testing.T) {
	community.Report(t.Context(), community.Progress{Message: "x"})
	if err := community.Emit(t.Context(), []byte("x"), ""); err != nil {
		t.Error(err)
	}
	call := serving(t, community.Config{MaxPartial: 1}, func(ctx context.Context, s community.Signal) (community.Reply, error) {
		return community.Reply{}, community.Emit(ctx, make([]byte, 1000), "")
	})
	if _, err := call(t.Context(), nil); err != nil {
		t.Errorf("a call that nobody listens to: %v", err)
	}
}

func TestTooLongOutputIsARefusalOfItsSize(t *testing.T) {
	var refused []community.Reason
	call := serving(t, community.Config{MaxPartial: 1000, OnRefused: func(r community.Refusal) { refused = append(refused, r.Reason) }},
		func(ctx context.Context, _ community.Signal) (community.Reply, error) {
			for community.Emit(ctx, []byte("a"), "") == nil {
			}
			if ctx.Err() == nil {
				t.Error("the provider's context goes on")
			}
			return community.Reply{Data: []byte("as if nothing were")}, nil
		})
	output := 0
	_, err := call(t.Context(), func(u community.Update) { output += len(u.Output) })
	if !errors.Is(err, community.ErrTooLarge) || output > 31 {
		t.Errorf("got %v after %d parts of a byte, want ErrTooLarge before 32 of them", err, output)
	}
	if diff := cmp.Diff([]community.Reason{community.RefusedSize}, refused); diff != "" {
		t.Errorf("other refusals were told (-want +got):\n%s", diff)
	}
}
