package actor

import "context"

// Func is a Behavior without state, for tests.
type Func func(ctx context.Context, msg any) (any, error)

// Receive calls f.
func (f Func) Receive(ctx context.Context, msg any) (any, error) { return f(ctx, msg) }
