package community

import (
	"fmt"
	"time"
)

// updateFilter is the caller's end of a call's updates: it passes on the updates of a node that keeps to the
// limits, and ends a call whose node does not. One goroutine at a time uses it.
type updateFilter struct {
	onUpdate func(Update)
	lease    *Lease
	limit    int // bytes
	begun    time.Time
	abort    func(error)
	spent    int // bytes
	reports  int // of progress
	missed   uint64
	failed   error
}

// receive passes an update on. It drops progress beyond twice the rate that a node may send, and counts it as
// output, so that a flood reaches the limit and ends. It ignores updates after the end of the lease.
func (f *updateFilter) receive(u Update) {
	if f.lease.valid.Err() != nil {
		return
	}
	f.missed += u.Missed
	flood := false
	if u.Output == nil {
		f.reports++
		flood = float64(f.reports) > 2*(progressBurst+progressRate*time.Since(f.begun).Seconds())
	}
	switch {
	case flood:
		f.spent += floodCost
	case u.Output != nil:
		f.spent += len(u.Output) + pieceCost
	}
	switch {
	case f.spent > f.limit:
		f.failed = Explain(ErrTooLarge, fmt.Sprintf("over %d bytes came ahead of the answer", f.limit))
		f.abort(f.failed)
		return
	case flood:
		f.missed++
		return
	}
	u.ContentType, u.Progress = sanitizeContentType(u.ContentType), u.Progress.sanitized()
	if len(u.Output) == 0 && u.Progress == (Progress{}) {
		return // it says nothing
	}
	u.Missed, f.missed = f.missed, 0
	f.onUpdate(u)
}
