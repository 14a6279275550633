package community

import (
	"context"
	"strings"
	"time"
)

// What lives as long as a call, such as an agent that is lent to another node, lives longer than answers take. Config.MaxCall
// bounds such calls no more when both ends say so: the caller with Lasting, and the one who answers with WithLease or
// WithMaxCall. All else about them is as with other calls, and they end with the connection.

// WithLease is for a capability whose calls are leases on something that lives as long as they do: a call may last
// for that long, also beyond Config.MaxCall. Default: Config.MaxCall. The Network may have a limit of its own.
func WithLease(d time.Duration) OfferOption { return func(o *offer) { o.lease = d } }

// WithMaxCall is how long the agent may take for a signal of another node, also beyond Config.MaxCall. Default:
// Config.MaxCall.
func WithMaxCall(d time.Duration) SpawnOption { return func(r *resident) { r.maxCall = d } }

type lastingKey struct{}

// Lasting lets calls to other nodes under ctx last for d, also beyond Config.MaxCall. What the other node lets a call
// last is said there.
func Lasting(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, lastingKey{}, d)
}

// patience is how long a call to another node may last.
func (c *Community) patience(ctx context.Context) time.Duration {
	d, _ := ctx.Value(lastingKey{}).(time.Duration)
	return max(d, c.cfg.MaxCall)
}

// capped bounds a call of another node. A context that ends before has all it needs.
func (c *Community) capped(ctx context.Context, call *Call) (context.Context, context.CancelFunc) {
	most := c.cfg.MaxCall
	at, ok := ctx.Deadline()
	if ok && time.Until(at) <= most {
		return ctx, func() {}
	}
	if most = max(most, c.lasts(call)); ok && time.Until(at) <= most {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, most)
}

// lasts is what WithLease or WithMaxCall said for whom the call is for.
func (c *Community) lasts(call *Call) time.Duration {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if r := c.residents[call.Member]; r != nil && strings.HasPrefix(call.Capability, PerceptionPrefix) {
		return r.maxCall
	}
	if o := c.offers[call.Capability]; o != nil && (call.Member == "" || call.Member == MemberID(c.cfg.Node)) {
		return o.lease
	}
	return 0
}
