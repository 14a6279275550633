// Package awake measures periods in which this process ran.
//
// A process that was stopped, or starved by others, has not read what came meanwhile, and what it waits for could not be
// asked again. So a silence that it did not run through says nothing about another node. A period is therefore measured in
// parts: a part counts once, however late its timer was, and a timer that is late by more than the whole period begins it
// anew. What judges other nodes by their silence measures it with this package. Deadlines of calls do not: they are promises.
package awake

import (
	"context"
	"sync"
	"time"
)

// Parts is of how many parts a period consists. Each wakes the process once.
const Parts = 4

// Clock measures periods. The zero Clock uses the machine's time.
type Clock struct {
	// After starts a timer. Default: time.After. Tests give one that is late.
	After func(time.Duration) <-chan time.Time
}

// Silent waits until silence, which returns how long ago the last sign of life came, was a whole limit of time in which
// this process ran, and returns true. It returns false when ctx ends.
func (c Clock) Silent(ctx context.Context, limit time.Duration, silence func() time.Duration) bool {
	var missed time.Duration // of the silence
	for {
		left := limit - silence() + missed
		if left <= 0 {
			return true
		}
		wait := min(left, limit/Parts)
		late := c.Wait(ctx, wait, nil)
		if ctx.Err() != nil {
			return false
		}
		now := silence()
		if now < wait+late { // a sign of life came in this part
			missed = 0
		}
		if missed += late; late > limit {
			missed = now
		}
		missed = min(missed, now)
	}
}

// Wait waits for d, until wake has a value, or ctx ends, and returns by how much that took longer than d: a time in which
// this process did not run. It is for those who measure many periods at once; d is at most a part (Parts) of each.
func (c Clock) Wait(ctx context.Context, d time.Duration, wake <-chan struct{}) (late time.Duration) {
	after := c.After
	if after == nil {
		after = time.After
	}
	begun := time.Now()
	select {
	case <-after(d):
	case <-wake:
	case <-ctx.Done():
	}
	return max(time.Since(begun)-d, 0)
}

// WithTimeoutCause returns a context that ends with cause after limit of time in which this process ran. It has no
// deadline: calls under it have their own. The caller must call cancel, which waits for the timer.
func (c Clock) WithTimeoutCause(parent context.Context, limit time.Duration, cause error) (ctx context.Context, cancel context.CancelFunc) {
	ctx, end := context.WithCancelCause(parent)
	begun := time.Now()
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if c.Silent(ctx, limit, func() time.Duration { return time.Since(begun) }) {
			end(cause)
		}
	})
	return ctx, func() { end(nil); waiting.Wait() }
}
