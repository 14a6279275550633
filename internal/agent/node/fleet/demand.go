package fleet

import (
	"context"
	"sync"
	"time"
)

// demand runs work only while it is wanted: from the first acquire until linger after the last
// release. It is safe for concurrent use.
type demand struct {
	linger time.Duration
	wake   chan struct{} // capacity 1: users may have changed from 0

	mu    sync.Mutex
	users int                // guarded by mu
	stop  context.CancelFunc // ends the work that runs; nil = none runs; guarded by mu
	timer *time.Timer        // runs expire; nil before the first release; guarded by mu
}

func newDemand(linger time.Duration) *demand {
	return &demand{linger: linger, wake: make(chan struct{}, 1)}
}

// acquire says that the work is wanted, until the caller calls the returned function, once.
func (d *demand) acquire() (release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.users++
	if d.timer != nil {
		d.timer.Stop()
	}
	select {
	case d.wake <- struct{}{}:
	default:
	}
	return d.release
}

func (d *demand) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.users--; d.users > 0 {
		return
	}
	if d.timer == nil {
		d.timer = time.AfterFunc(d.linger, d.expire)
	} else {
		d.timer.Reset(d.linger)
	}
}

// expire ends the work if it is not wanted any more.
func (d *demand) expire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.users == 0 && d.stop != nil {
		d.stop()
	}
}

// run calls work each time that it is wanted, with a context that ends when it is not any more. It
// returns when ctx has ended and work has returned.
func (d *demand) run(ctx context.Context, work func(context.Context)) {
	for {
		select {
		case <-d.wake:
		case <-ctx.Done():
			return
		}
		d.mu.Lock()
		if d.users == 0 { // an old signal, or released already
			d.mu.Unlock()
			continue
		}
		wanted, stop := context.WithCancel(ctx)
		d.stop = stop
		d.mu.Unlock()
		work(wanted)
		d.mu.Lock()
		d.stop = nil
		d.mu.Unlock()
		stop()
	}
}
