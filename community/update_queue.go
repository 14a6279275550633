package community

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// updateQueue holds the updates of one call that its caller has not received yet. The provider adds to it and
// waits only for room for output. run, in its own goroutine, empties it as fast as the Network accepts. A caller
// that reads slowly therefore delays the output of its own call and nothing else.
type updateQueue struct {
	listen func(Update)
	limit  int         // bytes of output
	abort  func(error) // ends the call

	mu      sync.Mutex
	queue   []Update      // guarded by mu
	output  int           // bytes of output in queue; guarded by mu
	reports int           // of progress in queue; guarded by mu
	spent   int           // bytes of output so far, and what they cost; guarded by mu
	missed  uint64        // guarded by mu
	closed  bool          // the call has been answered; guarded by mu
	drained bool          // after that, all updates were sent; guarded by mu
	failed  error         // guarded by mu
	changed chan struct{} // closed and replaced at each change; guarded by mu
}

// dispatchWithUpdates is dispatch for a caller that wants updates. When it returns a reply, all output that was
// emitted has been sent.
func (c *inboundCall) dispatchWithUpdates(ctx context.Context) (Reply, error) {
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	f := &updateQueue{listen: c.call.Listen, limit: c.cfg.MaxPartial, abort: abort, changed: make(chan struct{})}
	var sending sync.WaitGroup
	sending.Go(func() { f.run(ctx) })
	defer sending.Wait()
	defer f.close()
	reply, err := c.dispatch(context.WithValue(ctx, updateQueueKey{}, f))
	f.close()
	sending.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.failed != nil:
		return Reply{}, c.refuse(RefusedSize, f.failed)
	case err == nil && !f.drained:
		err = context.Cause(ctx)
	}
	return reply, err
}

// run sends the queued updates, until the queue is closed and empty or ctx ends.
func (f *updateQueue) run(ctx context.Context) {
	pace := rate.NewLimiter(progressRate, progressBurst)
	for ctx.Err() == nil {
		u, found, early, changed := f.next(pace)
		switch {
		case found:
			f.listen(u)
			continue
		case changed == nil:
			return
		}
		var soon <-chan time.Time
		if early {
			soon = time.After(time.Second / progressRate)
		}
		select {
		case <-changed:
		case <-soon:
		case <-ctx.Done():
		}
	}
}

// next returns the next update to send, or a channel to wait on; with neither, nothing will come. Progress that
// comes too soon after the last is dropped if there is a newer update. Otherwise it waits for a newer one, for the
// end of the call, or for its time.
func (f *updateQueue) next(pace *rate.Limiter) (next Update, found, early bool, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.queue) > 0 {
		u := f.queue[0]
		last := len(f.queue) == 1
		early = u.Output == nil && !(last && f.closed) && !pace.Allow()
		if early && last {
			return Update{}, false, true, f.changed
		}
		f.drop(0)
		if early {
			f.missed++
			continue
		}
		u.Missed, f.missed = f.missed, 0
		f.wake()
		return u, true, false, nil
	}
	if f.closed {
		f.drained = true
		return Update{}, false, false, nil
	}
	return Update{}, false, false, f.changed
}

// drop removes the i-th update from the queue. The caller must hold f.mu.
func (f *updateQueue) drop(i int) {
	if u := f.queue[i]; u.Output != nil {
		f.output -= len(u.Output)
	} else {
		f.reports--
	}
	f.queue = append(f.queue[:i], f.queue[i+1:]...)
}

// wake makes all waiting goroutines look again. The caller holds f.mu.
func (f *updateQueue) wake() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// report queues progress, and drops the oldest report if too many wait.
func (f *updateQueue) report(p Progress) {
	p = p.sanitized()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	if f.reports >= waitingProgress {
		for i, u := range f.queue {
			if u.Output == nil {
				f.drop(i)
				f.missed++
				break
			}
		}
	}
	f.queue = append(f.queue, Update{Progress: p})
	f.reports++
	f.wake()
}

// emit queues one piece of output. It waits while there is no room.
func (f *updateQueue) emit(ctx context.Context, data []byte, contentType string) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		changed, err := f.tryAppend(data, sanitizeContentType(contentType))
		if changed == nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// tryAppend queues a piece of output, or returns a channel to wait on if there is no room. It joins the piece to
// the last one if both fit into one update.
func (f *updateQueue) tryAppend(data []byte, contentType string) (<-chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.failed != nil:
		return nil, f.failed
	case f.closed:
		return nil, fmt.Errorf("the call has been answered: %w", context.Canceled)
	case f.spent+len(data)+pieceCost > f.limit:
		f.failed = Explain(ErrTooLarge, fmt.Sprintf("the call's output before its answer is over %d bytes", f.limit))
		f.abort(f.failed)
		f.wake()
		return nil, f.failed
	case f.output > 0 && f.output+len(data) > waitingOutput:
		return f.changed, nil
	}
	f.spent += len(data) + pieceCost
	f.output += len(data)
	if n := len(f.queue); n > 0 && f.queue[n-1].Output != nil && f.queue[n-1].ContentType == contentType && len(f.queue[n-1].Output)+len(data) <= pieceSize {
		f.queue[n-1].Output = append(f.queue[n-1].Output, data...)
	} else {
		f.queue = append(f.queue, Update{Output: append([]byte(nil), data...), ContentType: contentType})
	}
	f.wake()
	return nil, nil
}

// close ends the updates of the call. Queued ones are still sent.
func (f *updateQueue) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.closed = true
		f.wake()
	}
}
