// Package waittest waits in tests: for a condition, for a value of a channel, for the end of a call.
//
// A wait ends by the event that it is for, or shortly before the deadline of the test itself (the -timeout of go test):
// no wait has a limit of its own that a slow machine can miss. What a wait reports when it fails is what it was for and
// what it saw last.
//
// Tests inside of a bubble of testing/synctest do not use this package: their time passes at once, and T.Deadline must
// not be called there. It imports nothing of ours, so that the tests of every package can import it.
package waittest

import (
	"context"
	"errors"
	"runtime/pprof"
	"strings"
	"testing"
	"time"
)

const (
	firstPause = time.Millisecond
	maxPause   = 50 * time.Millisecond
	// maxMargin is what a failed wait leaves to the rest of the test, before go test ends the process: the reports, and
	// the cleanups, which end processes and servers. A short -timeout leaves a quarter of it.
	maxMargin = 15 * time.Second
)

var errDeadline = errors.New("the deadline of the test is near")

// T is what a wait needs of a test. *testing.T, *testing.B and *rapid.T are such. One that has the method Deadline of
// *testing.T, too, ends its waits before that; the others wait for the event alone.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Until calls holds again and again, in pauses of 1 to 50 ms, until it returns ok. Shortly before the deadline of the test
// it fails t instead, with what was waited for and with what holds saw in its last call. A holds that can block should do
// so with Context(t) only.
func Until(t T, what string, holds func() (saw any, ok bool)) {
	t.Helper()
	late, pause := lateFor(t), firstPause
	for {
		saw, ok := holds()
		if ok {
			return
		}
		select {
		case <-late:
			t.Fatalf("waited for %s until the deadline of the test; last seen: %v", what, saw)
			return
		case <-time.After(pause):
			pause = min(2*pause, maxPause)
		}
	}
}

// Receive returns the next value of a channel. It fails t if the channel is closed, and shortly before the deadline of the
// test, then with the stacks of all goroutines.
func Receive[V any](t T, what string, from <-chan V) V {
	t.Helper()
	value, open := receive(t, what, from)
	if !open {
		t.Fatalf("waited for %s: the channel is closed", what)
	}
	return value
}

// Closed returns when a channel is closed or sends: a Done of a context, or a channel of events. Shortly before the
// deadline of the test it fails t with the stacks of all goroutines.
func Closed[V any](t T, what string, event <-chan V) {
	t.Helper()
	receive(t, what, event)
}

// Context returns a context that ends with the test, and shortly before its deadline: for calls that take one.
func Context(t testing.TB) context.Context {
	at, limited := end(t)
	if !limited {
		return t.Context()
	}
	ctx, cancel := context.WithDeadlineCause(t.Context(), at, errDeadline)
	t.Cleanup(cancel)
	return ctx
}

func receive[V any](t T, what string, from <-chan V) (value V, open bool) {
	t.Helper()
	select {
	case value, open = <-from:
	case <-lateFor(t):
		var stacks strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1) // to memory
		t.Fatalf("waited for %s until the deadline of the test\n%s", what, &stacks)
	}
	return value, open
}

// lateFor returns a channel that sends when the waits of t have to end, nil if they need not.
func lateFor(t T) <-chan time.Time {
	at, limited := end(t)
	if !limited {
		return nil
	}
	return time.After(time.Until(at))
}

// end returns when the waits of t have to end, and whether they have to.
func end(t any) (at time.Time, limited bool) {
	test, ok := t.(interface{ Deadline() (time.Time, bool) })
	if !ok {
		return time.Time{}, false
	}
	deadline, ok := test.Deadline()
	if !ok {
		return time.Time{}, false
	}
	return deadline.Add(-min(maxMargin, time.Until(deadline)/4)), true
}
