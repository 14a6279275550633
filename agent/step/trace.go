package step

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"symbio/community"
)

// Span is one run of a step that Trace watched.
type Span struct {
	Name string
	// Trace is the id of the whole, Parent of the span around this one, "" for the outermost here
	// if no other node's call is around it. As in W3C trace context, in hexadecimal.
	Trace, ID, Parent string
	Begun             time.Time
	Took              time.Duration
	Err               error
}

// Tracer hears of each span when it ends. It is called by the goroutine of the step, of many at
// once, and must not block. Put it around steps by With, as a Tracer: With(Tracer(f), s).
type Tracer func(Span)

// Trace is s under a name: its errors begin with it, and if there is a Tracer in the context each
// run is a Span. Calls of other nodes inside belong to the span there, too
// (community.Trace).
func Trace[In, Out any](name string, s Step[In, Out]) Step[In, Out] {
	return Func(func(ctx context.Context, in In) (Out, error) {
		ended := func(error) {}
		if tracer, _ := lookup[Tracer](ctx); tracer != nil {
			ctx, ended = begin(ctx, tracer, name)
		}
		out, err := s.Run(ctx, in)
		if err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		ended(err)
		return out, err
	})
}

func begin(ctx context.Context, tracer Tracer, name string) (context.Context, func(error)) {
	span := Span{Name: name, ID: fmt.Sprintf("%016x", rand.Uint64()|1), Begun: time.Now()} // |1: 0 is no id
	around := community.TraceOf(ctx)
	flags := "01"
	if parts := strings.Split(around.Parent(), "-"); len(parts) == 4 {
		span.Trace, span.Parent, flags = parts[1], parts[2], parts[3]
	} else {
		span.Trace = fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()|1)
	}
	inner := community.ParseTrace("00-"+span.Trace+"-"+span.ID+"-"+flags, around.State())
	return community.WithTrace(ctx, inner), func(err error) {
		span.Took, span.Err = time.Since(span.Begun), err
		tracer(span)
	}
}
