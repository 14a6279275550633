package waittest_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"symbio/internal/community/waittest"
)

// fakeTest is a test whose deadline is on the clock of the bubble, and which keeps the message that it fails with.
type fakeTest struct {
	testing.TB
	deadline time.Time // zero: none
	failed   string
}

func (f *fakeTest) Deadline() (time.Time, bool) { return f.deadline, !f.deadline.IsZero() }

func (f *fakeTest) Fatalf(format string, args ...any) {
	f.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// outcome runs wait with a test that has so much time, if any; it returns the message it failed with, and how long it took.
func outcome(t *testing.T, within time.Duration, wait func(*fakeTest)) (failed string, took time.Duration) {
	fake, began, ended := &fakeTest{TB: t}, time.Now(), make(chan struct{})
	if within > 0 {
		fake.deadline = began.Add(within)
	}
	go func() { defer close(ended); wait(fake) }()
	<-ended
	return fake.failed, time.Since(began)
}

func TestUntil(t *testing.T) {
	for name, c := range map[string]struct {
		within, holdsAfter time.Duration
		took               [2]time.Duration // at least, at most
		failed             string
	}{
		"holds":               {10 * time.Minute, 0, [2]time.Duration{0, 0}, ""},
		"soon":                {10 * time.Minute, time.Millisecond, [2]time.Duration{time.Millisecond, time.Millisecond}, ""},
		"late":                {10 * time.Minute, 9 * time.Minute, [2]time.Duration{9 * time.Minute, 9*time.Minute + 50*time.Millisecond}, ""},
		"never":               {10 * time.Minute, time.Hour, [2]time.Duration{585 * time.Second, 585 * time.Second}, "waited for the kettle until the deadline of the test; last seen: 584."},
		"never, little time":  {4 * time.Second, time.Hour, [2]time.Duration{3 * time.Second, 3 * time.Second}, "waited for the kettle until the deadline of the test; last seen: 2.9"},
		"without a deadline":  {0, time.Hour, [2]time.Duration{time.Hour, time.Hour + 50*time.Millisecond}, ""},
		"deadline has passed": {time.Nanosecond, time.Hour, [2]time.Duration{0, time.Millisecond}, "waited for the kettle"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, calls := time.Now(), 0
				failed, took := outcome(t, c.within, func(fake *fakeTest) {
					waittest.Until(fake, "the kettle", func() (any, bool) {
						calls++
						since := time.Since(began)
						return since.Seconds(), since >= c.holdsAfter
					})
				})
				if took < c.took[0] || took > c.took[1] {
					t.Errorf("it took %v, want %v to %v", took, c.took[0], c.took[1])
				}
				if !strings.HasPrefix(failed, c.failed) || (c.failed == "") != (failed == "") {
					t.Errorf("it failed with %q, want %q", failed, c.failed)
				}
				if most := int(took/(50*time.Millisecond)) + 10; calls > most {
					t.Errorf("it tried %d times in %v, want at most %d", calls, took, most)
				}
			})
		})
	}
}

func TestReceive(t *testing.T) {
	for name, c := range map[string]struct {
		after  func(chan int)
		got    int
		failed string
	}{
		"value":   {func(c chan int) { time.Sleep(9 * time.Minute); c <- 7 }, 7, ""},
		"closed":  {func(c chan int) { close(c) }, 0, "waited for the post: the channel is closed"},
		"nothing": {func(chan int) {}, 0, "waited for the post until the deadline of the test\ngoroutine profile: total "},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from, got := make(chan int), 0
				go c.after(from)
				failed, _ := outcome(t, 10*time.Minute, func(fake *fakeTest) { got = waittest.Receive(fake, "the post", from) })
				if got != c.got || !strings.HasPrefix(failed, c.failed) || (c.failed == "") != (failed == "") {
					t.Errorf("got %d and the failure %q, want %d and %q", got, failed, c.got, c.failed)
				}
			})
		})
	}
}

func TestClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(9*time.Minute, cancel)
		failed, took := outcome(t, 10*time.Minute, func(fake *fakeTest) { waittest.Closed(fake, "the end", ctx.Done()) })
		if failed != "" || took != 9*time.Minute {
			t.Errorf("it took %v and failed with %q, want 9m0s and nothing", took, failed)
		}
		failed, took = outcome(t, 10*time.Minute, func(fake *fakeTest) { waittest.Closed(fake, "the end", make(chan error)) })
		if !strings.HasPrefix(failed, "waited for the end until the deadline of the test\n") || took != 585*time.Second {
			t.Errorf("it took %v and failed with %q, want 9m45s and that it waited for the end", took, failed)
		}
	})
}

func TestContextEndsBeforeTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx := waittest.Context(&fakeTest{TB: t, deadline: began.Add(10 * time.Minute)})
		<-ctx.Done()
		if took := time.Since(began); took != 585*time.Second || context.Cause(ctx).Error() != "the deadline of the test is near" {
			t.Errorf("it ended after %v because of %v, want 9m45s and the deadline", took, context.Cause(ctx))
		}
		if at, limited := waittest.Context(&fakeTest{TB: t}).Deadline(); limited {
			t.Errorf("without a deadline of the test it ends at %v", at)
		}
	})
}

func TestContextEndsWithTheTest(t *testing.T) {
	var ctx context.Context
	t.Run("inner", func(t *testing.T) { ctx = waittest.Context(t) })
	if ctx.Err() == nil {
		t.Error("the test is over and its context is not")
	}
}
