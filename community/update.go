package community

import (
	"context"
	"math"

	"symbio/internal/security/visible"
)

// Progress says how far a call is.
type Progress struct {
	// Message is one line for people. Control characters and what is over 500 bytes are taken out.
	Message string
	// Done is how much is done of Total; a Total of 0 = not known.
	Done, Total float64
}

// Update is what is heard of a call before its answer: a part of its output, or its progress.
type Update struct {
	// Output is a part of the output, to be put behind those before it; nil for progress.
	Output      []byte
	ContentType string // of Output; "" = application/json
	Progress    Progress
	// Missed is how many reports of progress were left out since the Update before. Output never is.
	Missed uint64
}

// Limits of updates, the same at both ends. A call is watched by a person, or shown in one line.
const (
	maxMessage      = 500      // bytes of a progress message
	maxContentType  = 128      // bytes
	progressRate    = 20       // reports of progress a second, in the long run
	progressBurst   = 40       // and at once
	waitingProgress = 32       // reports that wait for a slow caller
	waitingOutput   = 64 << 10 // bytes of output that wait before Emit does
	pieceSize       = 32 << 10 // bytes of output in one Update
	pieceCost       = 32       // bytes that an Update counts as beside its output
	floodCost       = 1 << 10  // and what a report does that a node should have left out
	maxPartial      = 16 << 20 // default of Config.MaxPartial
)

type updateQueueKey struct{}

// Report sends the caller of the call that ctx belongs to the progress of the call. It never blocks, and may be
// called from any goroutine at any rate. More than 20 reports a second, or more than the caller accepts, are
// dropped and counted, but never the newest. It does nothing without a listener and after the end of the call.
func Report(ctx context.Context, p Progress) {
	if f, _ := ctx.Value(updateQueueKey{}).(*updateQueue); f != nil {
		f.report(p)
	}
}

// Emit sends the caller of the call that ctx belongs to a part of the output, ahead of the answer. No output is
// lost: Emit waits while 64 KiB are queued. data is copied. Parts of concurrent Emits may alternate.
//
// ErrTooLarge: the call's output is over Config.MaxPartial; the call ends with that error. Otherwise the error is
// the cause of the end of ctx or of the call. Emit does nothing without a listener.
func Emit(ctx context.Context, data []byte, contentType string) error {
	f, _ := ctx.Value(updateQueueKey{}).(*updateQueue)
	if f == nil {
		return nil
	}
	for len(data) > 0 {
		n := len(visible.Prefix(data, pieceSize))
		if err := f.emit(ctx, data[:n], contentType); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// HasListener reports whether the caller receives the updates of the call that ctx belongs to.
func HasListener(ctx context.Context) bool {
	f, _ := ctx.Value(updateQueueKey{}).(*updateQueue)
	return f != nil
}

// WithoutListener returns ctx without the call's listener: for work that belongs to another caller.
func WithoutListener(ctx context.Context) context.Context {
	return context.WithValue(ctx, updateQueueKey{}, (*updateQueue)(nil))
}

// sanitized returns p without characters and numbers that cannot be shown.
func (p Progress) sanitized() Progress {
	p.Message = visible.Line(p.Message, maxMessage)
	if !(p.Total > 0 && p.Done >= 0) || math.IsInf(p.Total, 0) || math.IsInf(p.Done, 0) {
		p.Done, p.Total = 0, 0
	}
	return p
}

// sanitizeContentType returns s, or "" if it is too long or cannot be shown.
func sanitizeContentType(s string) string {
	if len(s) > maxContentType || s != printable(s) {
		return ""
	}
	return s
}
