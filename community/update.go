package community

import (
	"context"
	"math"

	"symbio/security/visible"
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

type feedKey struct{}

// Report tells the caller of the call that ctx belongs to how far it is. It never blocks and may be
// called from anywhere, at any rate: what is more than a person reads (20 a second) or comes faster than
// the caller takes it is left out and counted, the newest never. It does nothing where nobody listens,
// and after the call has ended.
func Report(ctx context.Context, p Progress) {
	if f, _ := ctx.Value(feedKey{}).(*feed); f != nil {
		f.report(p)
	}
}

// Emit gives a part of its output to the caller of the call that ctx belongs to, ahead of the answer.
// None of it is lost: Emit waits while 64 KiB are on their way, which is as fast as the caller takes them.
// data is copied. Parts of Emits at the same time may alternate.
//
// ErrTooLarge: the call's output is over Config.MaxPartial; the call ends with that error, whatever is
// answered. Otherwise the error is why ctx or the call has ended. Where nobody listens it does nothing.
func Emit(ctx context.Context, data []byte, contentType string) error {
	f, _ := ctx.Value(feedKey{}).(*feed)
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

// Listened reports whether somebody hears what is emitted under ctx.
func Listened(ctx context.Context) bool {
	f, _ := ctx.Value(feedKey{}).(*feed)
	return f != nil
}

// Silent is ctx, but what is reported and emitted under it is nobody's: for work that has a caller of
// its own.
func Silent(ctx context.Context) context.Context {
	return context.WithValue(ctx, feedKey{}, (*feed)(nil))
}

// tidied is p as it may be shown, whoever it came from.
func (p Progress) tidied() Progress {
	p.Message = visible.Line(p.Message, maxMessage)
	if !(p.Total > 0 && p.Done >= 0) || math.IsInf(p.Total, 0) || math.IsInf(p.Done, 0) {
		p.Done, p.Total = 0, 0
	}
	return p
}

// tidyType is a content type as it may be told.
func tidyType(s string) string {
	if len(s) > maxContentType || s != printable(s) {
		return ""
	}
	return s
}
