package community

import (
	"context"
	"strings"
)

// Trace is a W3C trace context: which trace a call belongs to. It travels with calls between nodes, so
// that a provider that calls on continues its caller's trace. This package makes no spans and no ids: a
// call has the Trace of its context or none, because drawing an id for each call would cost the calls
// that are not traced. The zero value is no trace; another one can only be had from ParseTrace.
type Trace struct{ parent, state string }

// maxTraceState is what W3C asks everybody to carry, in bytes, and maxTraceMembers the most it allows.
const (
	maxTraceState   = 512
	maxTraceMembers = 32
)

// ParseTrace reads the headers traceparent and tracestate. A parent that is not version 00 to the letter
// is no trace, and a state that is malformed or over 512 bytes is left out: what is wrong is dropped, and
// never an error, because it must not fail a call.
func ParseTrace(parent, state string) Trace {
	const form = "00-00000000000000000000000000000000-0000000000000000-00"
	if len(parent) != len(form) || !strings.HasPrefix(parent, "00-") || parent[3:35] == form[3:35] || parent[36:52] == form[36:52] {
		return Trace{}
	}
	for i := range len(form) {
		if c := parent[i]; form[i] == '-' && c != '-' || form[i] == '0' && !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			return Trace{}
		}
	}
	if !validTraceState(state) {
		state = ""
	}
	return Trace{parent, state}
}

// validTraceState reports whether a state may be passed on. W3C allows tabs around members; they are not printable, and gRPC
// fails a call whose headers have one.
func validTraceState(state string) bool {
	if len(state) > maxTraceState || strings.Count(state, ",") >= maxTraceMembers {
		return false
	}
	for member := range strings.SplitSeq(state, ",") {
		key, value, ok := strings.Cut(strings.Trim(member, " "), "=")
		odd := func(r rune) bool { return r < ' ' || r > '~' }
		if member != "" && (!ok || key == "" || strings.ContainsFunc(key, func(r rune) bool { return odd(r) || r == ' ' }) ||
			strings.ContainsFunc(value, odd) || strings.Contains(value, "=")) {
			return false
		}
	}
	return true
}

// Parent is the header traceparent, 55 characters; "" = no trace.
func (t Trace) Parent() string { return t.parent }

// State is the header tracestate, at most 512 bytes.
func (t Trace) State() string { return t.state }

// String is the trace's id, 32 hex digits, for logs; "" = no trace.
func (t Trace) String() string {
	if t.parent == "" {
		return ""
	}
	return t.parent[3:35]
}

// CallInfo describes a call between nodes for Config.OnCall.
type CallInfo struct {
	// Node is the other node: the provider of a call that goes out, the caller of a Served one.
	Node   NodeID
	Served bool
	// Capability is the called one; the Capability of a signal begins with PerceptionPrefix. It is text of the caller.
	Capability string
}

// noCall is the end of a call without a Config.OnCall.
func noCall(error) {}

// beginCall calls Config.OnCall, if there is one.
func (c *Config) beginCall(ctx context.Context, info CallInfo) (context.Context, func(error)) {
	if c.OnCall == nil {
		return ctx, noCall
	}
	return c.OnCall(ctx, info)
}

type traceKey struct{}

// WithTrace makes the calls under ctx part of a trace. The context of a provider or an agent that
// another node called has that call's.
func WithTrace(ctx context.Context, t Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceOf is the trace that calls under ctx are part of.
func TraceOf(ctx context.Context) Trace {
	t, _ := ctx.Value(traceKey{}).(Trace)
	return t
}
