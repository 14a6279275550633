package community

import (
	"context"
	"strings"
	"time"
)

// Calls that last as long as something lives, such as an agent that is lent to another node, take longer than answers do.
// Config.MaxCall does not bound such calls when both ends say so: the caller with Lasting, and the other node with
// WithLease or WithMaxCall. All else about them is as with other calls, and they end with the connection.

// WithLease is for a capability whose calls are leases on something that lives as long as they do: a call may last
// for that long, also beyond Config.MaxCall. Default: Config.MaxCall. The Network may have a limit of its own.
func WithLease(d time.Duration) OfferOption { return func(o *offer) { o.lease = d } }

// WithMaxCall is how long the agent may take for a signal of another node, also beyond Config.MaxCall. Default:
// Config.MaxCall.
func WithMaxCall(d time.Duration) SpawnOption { return func(a *localAgent) { a.maxCall = d } }

type lastingKey struct{}

// Lasting lets calls to other nodes under ctx last for d, also beyond Config.MaxCall. The other node bounds them by what
// it says itself.
func Lasting(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, lastingKey{}, d)
}

// callTimeout is how long a call to another node may last.
func (o *outbound) callTimeout(ctx context.Context) time.Duration {
	d, _ := ctx.Value(lastingKey{}).(time.Duration)
	return max(d, o.cfg.MaxCall)
}

// withDeadline bounds a call of another node. A context that ends before has all it needs.
func (c *inboundCall) withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := c.cfg.MaxCall
	at, ok := ctx.Deadline()
	if ok && time.Until(at) <= limit {
		return ctx, func() {}
	}
	if limit = max(limit, c.ownTimeout()); ok && time.Until(at) <= limit {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, limit)
}

// ownTimeout is what the agent's WithMaxCall or the capability's WithLease says.
func (c *inboundCall) ownTimeout() time.Duration {
	c.roster.mu.RLock()
	defer c.roster.mu.RUnlock()
	if a := c.roster.agents[c.call.Member]; a != nil && strings.HasPrefix(c.call.Capability, PerceptionPrefix) {
		return a.maxCall
	}
	if o := c.roster.offers[c.call.Capability]; o != nil && c.isForNode() {
		return o.lease
	}
	return 0
}
