package step

import "context"

// key is where a context carries a value of type T.
type key[T any] struct{}

// Contextable is a type of one's own for Value. Default says what holds where
// no step around gives a value by With; it is called on the zero T.
type Contextable[T any] interface{ Default() T }

// Value returns the value of type T that ctx carries, else T's Default. The
// compiler refuses a T that has none, so that no step goes on with a silent zero. For a type of
// another package there is Reader.
func Value[T Contextable[T]](ctx context.Context) T {
	if v, ok := lookup[T](ctx); ok {
		return v
	}
	var zero T
	return zero.Default()
}

// Reader returns Value for a type that has no method Default, such as one of another package: unset is what holds
// where no step around gives a value.
//
//	var boxOf = step.Reader(sandbox.Config{Disabled: true}) // boxOf(ctx) in a step, step.With(box, s) around it
func Reader[T any](unset T) func(context.Context) T {
	return func(ctx context.Context) T {
		if v, ok := lookup[T](ctx); ok {
			return v
		}
		return unset
	}
}

func lookup[T any](ctx context.Context) (T, bool) {
	v, ok := ctx.Value(key[T]{}).(T)
	return v, ok
}

// With is s with a value for everything inside: a Session for Generate, a *Cluster for Agent and
// Capability, an *EventBus, a Tracer, or any type that steps of one's own read by Value or a
// Reader. There is one of each type: an inner one stands in place of the one around it. T is v's
// own type unless it is named, as in With[llm.Model](m, s): it is found by that type and no other.
func With[T, In, Out any](v T, s Step[In, Out]) Step[In, Out] {
	return Func(func(ctx context.Context, in In) (Out, error) {
		return s.Run(context.WithValue(ctx, key[T]{}, v), in)
	})
}
