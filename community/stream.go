package community

import (
	"fmt"
	"time"
)

// updateFilter is the caller's end of a call's updates: it passes on what a node that keeps the rules
// sends, and ends a call whose node does not. It is used by one goroutine at a time.
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

// receive passes an update on. More progress than a node sends that keeps to the rate is left out,
// and counts as output, so that it comes to an end. What comes after the lease does not count.
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
	u.ContentType, u.Progress = tidyType(u.ContentType), u.Progress.tidied()
	if len(u.Output) == 0 && u.Progress == (Progress{}) {
		return // it says nothing
	}
	u.Missed, f.missed = f.missed, 0
	f.onUpdate(u)
}
