// Package term has contexts for very many short calls: a Term is its parent with a deadline and an end
// of its own, and costs one object until its Done channel is used.
//
// The one idea: what context.WithTimeout sets up for each call (a timer, a channel, a place among the
// children of its parent) is hardly ever used, because calls end by their answer. A Set has one timer for
// all its Terms, and who only waits for one answer selects on Ends, which are there already. To all
// others a Term is a context like any other: with the first use of Done it becomes one of package
// context's.
//
// Err, Cause and Deadline say what those of package context would; Err may say that the time is up before
// Done does, by as much as two timers may differ. Everything may be called by many goroutines at once,
// but Close once.
package term

import (
	"context"
	"sync"
	"time"
)

// Term is a context. Make it with New or Set.Begin, and Close it when the call is over.
type Term struct {
	context.Context // the parent
	at              time.Time
	own             bool  // at is not the parent's deadline
	late            error // the cause of its end at that time; nil = context.DeadlineExceeded

	set        *Set  // nil = of none
	prev, next *Term // in the set; guarded by set.mu
	in         bool  // guarded by set.mu

	mu     sync.Mutex
	err    error                   // how it ended, other than with its parent; guarded by mu
	ended  chan struct{}           // made by Ends, closed with err; guarded by mu
	whole  context.Context         // made by Done; guarded by mu
	cancel context.CancelCauseFunc // of whole; guarded by mu
}

// New returns a Term without a deadline of its own.
func New(parent context.Context) *Term { return &Term{Context: parent} }

// Until returns a Term that ends with its parent, or at a time with that cause, whichever comes first.
func Until(parent context.Context, at time.Time, late error) *Term {
	t := &Term{Context: parent, at: at, own: true, late: late}
	if at, ok := parent.Deadline(); ok && !at.After(t.at) {
		t.own = false
	}
	return t
}

// Deadline is the earlier one of the Term's own and its parent's.
func (t *Term) Deadline() (time.Time, bool) {
	if t.own {
		return t.at, true
	}
	return t.Context.Deadline()
}

// Err says how it ended, nil while it has not.
func (t *Term) Err() error {
	t.mu.Lock()
	if t.err == nil && t.set == nil && t.own && !time.Now().Before(t.at) {
		t.grow() // nothing ends it at its time before
	}
	err, whole := t.err, t.whole
	t.mu.Unlock()
	switch {
	case err != nil:
		return err
	case whole != nil:
		return whole.Err()
	}
	return t.Context.Err()
}

// Done is closed when it ends.
func (t *Term) Done() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.grow()
	return t.whole.Done()
}

// Value is the parent's. Package context finds by it that it need not watch a Term with a goroutine.
func (t *Term) Value(key any) any {
	t.mu.Lock()
	whole := t.whole
	t.mu.Unlock()
	if whole != nil {
		return whole.Value(key)
	}
	return t.Context.Value(key)
}

// grow makes it one of package context's. It needs t.mu.
func (t *Term) grow() {
	if t.whole != nil {
		return
	}
	t.whole, t.cancel = context.WithCancelCause(t.Context)
	if t.own {
		below := t.cancel
		timed, stop := context.WithDeadlineCause(t.whole, t.at, t.late)
		t.whole, t.cancel = timed, func(cause error) { below(cause); stop() }
	}
	if t.err != nil {
		t.cancel(t.err)
	}
}

// End ends it with a cause; the first end counts.
func (t *Term) End(cause error) { t.end(context.Canceled, cause) }

func (t *Term) end(err, cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return
	}
	if cause != nil && cause != err {
		t.grow() // which keeps the cause
	}
	t.err = err
	if t.ended != nil {
		close(t.ended)
	}
	// A deadline ends whole by itself, so that its children learn that it was one.
	if t.cancel != nil && err != context.DeadlineExceeded {
		t.cancel(cause)
	}
}

// Close ends it and takes it out of its Set. One without a Set may be closed again.
func (t *Term) Close() {
	if t.set != nil {
		t.set.remove(t)
	}
	t.end(context.Canceled, nil)
}

// Ends returns two channels instead of Done's one: the parent's, and one that is closed when the Term
// ends by itself. Either may be nil.
func Ends(ctx context.Context) (parent, own <-chan struct{}) {
	t, ok := ctx.(*Term)
	if !ok || t.set == nil && t.own { // whose time only Done has
		return ctx.Done(), nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended == nil {
		t.ended = make(chan struct{})
		if t.err != nil {
			close(t.ended)
		}
	}
	return t.Context.Done(), t.ended
}
