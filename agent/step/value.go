package step

import "context"

// key is where a context carries a value of type T.
type key[T any] struct{}

// Value is the value of type T that ctx carries (spec: Context). Without one it is what T's method Default returns, if
// T has one (Default() T), and else the zero value.
func Value[T any](ctx context.Context) T {
	if v, ok := ctx.Value(key[T]{}).(T); ok {
		return v
	}
	var none T
	if d, ok := any(none).(interface{ Default() T }); ok {
		return d.Default()
	}
	return none
}

// WithValue is ctx with a value of type T, for Value. There is one of each type: an inner one stands in place of the
// one around it. A type of one's own keeps it apart from what others carry.
func WithValue[T any](ctx context.Context, v T) context.Context {
	return context.WithValue(ctx, key[T]{}, v)
}

// With is s with a value for everything inside: a Session for Generate, a *Cluster for Agent and Capability, an
// *EventBus, a Tracer, or any type that steps of one's own read by Value. T is v's own type unless it is named, as in
// With[llm.Model](m, s): Value finds it by that type and no other.
func With[T, In, Out any](v T, s Step[In, Out]) Step[In, Out] {
	return Func(func(ctx context.Context, in In) (Out, error) { return s.Run(WithValue(ctx, v), in) })
}
