package community

import (
	"context"
	"fmt"
	"time"
)

// InvokeStream is Invoke for who wants to hear meanwhile how far the call is, and parts of its output.
// heard is called from within InvokeStream, for one Update at a time, in the order in which they were
// reported, and never after the answer. It may block: then the call's output waits at its provider, and
// its progress is thinned out there. But InvokeStream does not return before heard does.
//
// A node that does not speak of updates gives its answer without. ErrTooLarge: more than Config.MaxPartial
// of output came ahead of the answer.
func (c *Community) InvokeStream(ctx context.Context, id MemberID, capability string, payload Signal, heard func(Update)) (Reply, error) {
	if heard == nil {
		return c.Invoke(ctx, id, capability, payload)
	}
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	h := &hearing{heard: heard, most: c.cfg.MaxPartial, began: time.Now(), abort: abort}
	reply, err := c.invoke(ctx, id, capability, payload, h.take)
	if h.failed != nil {
		member := printable(string(id))
		if m, ok := c.Member(id); ok {
			member = m.Name
		}
		return Reply{}, &Error{Op: "invoke " + printable(capability) + " on", Member: member, Err: h.failed}
	}
	return reply, err
}

// hearing is the caller's end of a call's updates: it lets through what a node that keeps the rules
// sends, and ends a call whose node does not. It is used by one goroutine at a time.
type hearing struct {
	heard  func(Update)
	most   int // bytes
	began  time.Time
	abort  func(error)
	spent  int
	told   int // reports of progress
	missed uint64
	failed error
}

// take passes an update on. What is more progress than a node sends that keeps to the rate is left out,
// and counts as output, so that it comes to an end.
func (h *hearing) take(u Update) {
	h.missed += u.Missed
	flood := false
	if u.Output == nil {
		h.told++
		flood = float64(h.told) > 2*(progressBurst+progressRate*time.Since(h.began).Seconds())
	}
	switch {
	case flood:
		h.spent += floodCost
	case u.Output != nil:
		h.spent += len(u.Output) + pieceCost
	}
	switch {
	case h.spent > h.most:
		h.failed = Explain(ErrTooLarge, fmt.Sprintf("over %d bytes came ahead of the answer", h.most))
		h.abort(h.failed)
		return
	case flood:
		h.missed++
		return
	}
	u.ContentType, u.Progress = tidyType(u.ContentType), u.Progress.tidied()
	if len(u.Output) == 0 && u.Progress == (Progress{}) {
		return // it says nothing
	}
	u.Missed, h.missed = h.missed, 0
	h.heard(u)
}

// listening passes on to listen what comes while the lease lasts; what comes later does not count.
func (l *Lease) listening(listen func(Update)) func(Update) {
	if listen == nil {
		return nil
	}
	return func(u Update) {
		if l.valid.Err() == nil {
			listen(u)
		}
	}
}
