package community

import (
	"context"
	"strings"
	"time"
)

// Calls that last as long as something lives, such as an agent that is lent to another node, take longer than answers do.
// Config.MaxCall does not bound such calls when both ends say so: the caller with WithCallDuration, and the other node with
// WithMaxCallDuration or WithMaxCall. All else about them is as with other calls, and they end with the connection.

// WithMaxCallDuration sets how long a call of the capability may take, also beyond Config.MaxCall: for a
// capability whose calls last as long as the thing they lend. Default: Config.MaxCall. The Network can have a
// limit of its own.
func WithMaxCallDuration(d time.Duration) OfferOption { return func(o *offer) { o.maxCall = d } }

// WithMaxCall sets how long the agent may take for a signal of another node, also beyond Config.MaxCall. Default:
// Config.MaxCall.
func WithMaxCall(d time.Duration) SpawnOption { return func(a *localAgent) { a.maxCall = d } }

type callDurationKey struct{}

// WithCallDuration lets calls to other nodes under ctx take up to d, also beyond Config.MaxCall. The other node
// has its own limit: WithMaxCallDuration or WithMaxCall.
func WithCallDuration(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, callDurationKey{}, d)
}

type acceptanceKey struct{}

// WithAcceptance has accept called when a node has accepted a call under ctx (Invoke): it has a place for the call and does
// not refuse it any more. It begins only when accept has returned nil. So a caller knows of a call to a node that froze or
// was lost before accept was called that nothing was done. A node of protocol 1.2 or earlier begins with a call when it
// arrives, so accept is called before the call is sent there.
func WithAcceptance(ctx context.Context, accept func() error) context.Context {
	return context.WithValue(ctx, acceptanceKey{}, accept)
}

// callTimeout returns the limit for a call to another node.
func (o *outbound) callTimeout(ctx context.Context) time.Duration {
	d, _ := ctx.Value(callDurationKey{}).(time.Duration)
	return max(d, o.cfg.MaxCall)
}

// withDeadline limits a call of another node. A context that ends earlier is returned as it is.
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

// ownTimeout returns the limit of the agent or capability, 0 if it has none.
func (c *inboundCall) ownTimeout() time.Duration {
	c.roster.mu.RLock()
	defer c.roster.mu.RUnlock()
	if a := c.roster.agents[c.call.Member]; a != nil && strings.HasPrefix(c.call.Capability, PerceptionPrefix) {
		return a.maxCall
	}
	if o := c.roster.offers[c.call.Capability]; o != nil && c.isForNode() {
		return o.maxCall
	}
	return 0
}
