package step

import "context"

// Pipeline runs steps of one type one after the other; each gets what the one before it gave. It ends with the
// first error, as it is; Trace puts names into errors. Of no steps it
// is Empty.
func Pipeline[T any](steps ...Step[T, T]) Step[T, T] { return pipeline[T](steps) }

type pipeline[T any] []Step[T, T]

func (p pipeline[T]) Run(ctx context.Context, in T) (T, error) {
	for _, s := range p {
		if ctx.Err() != nil {
			return in, context.Cause(ctx)
		}
		var err error
		if in, err = s.Run(ctx, in); err != nil {
			return in, err
		}
	}
	return in, nil
}

// Chain2 runs two steps one after the other; the second gets what the first gave. It and Chain3 to
// Chain8 are Pipeline for steps of different types. Beyond eight, chain chains: they are steps.
func Chain2[A, B, C any](first Step[A, B], second Step[B, C]) Step[A, C] {
	return &chain[A, B, C]{first, second}
}

type chain[A, B, C any] struct {
	first  Step[A, B]
	second Step[B, C]
}

func (c *chain[A, B, C]) Run(ctx context.Context, in A) (out C, err error) {
	between, err := c.first.Run(ctx, in)
	if err != nil {
		return out, err
	}
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	return c.second.Run(ctx, between)
}

// Chain3 is Chain2 for three steps.
func Chain3[A, B, C, D any](s1 Step[A, B], s2 Step[B, C], s3 Step[C, D]) Step[A, D] {
	return Chain2(s1, Chain2(s2, s3))
}

// Chain4 is Chain2 for four steps.
func Chain4[A, B, C, D, E any](s1 Step[A, B], s2 Step[B, C], s3 Step[C, D], s4 Step[D, E]) Step[A, E] {
	return Chain2(s1, Chain3(s2, s3, s4))
}

// Chain5 is Chain2 for five steps.
func Chain5[A, B, C, D, E, F any](s1 Step[A, B], s2 Step[B, C], s3 Step[C, D], s4 Step[D, E], s5 Step[E, F]) Step[A, F] {
	return Chain2(s1, Chain4(s2, s3, s4, s5))
}

// Chain6 is Chain2 for six steps.
func Chain6[A, B, C, D, E, F, G any](s1 Step[A, B], s2 Step[B, C], s3 Step[C, D], s4 Step[D, E], s5 Step[E, F], s6 Step[F, G]) Step[A, G] {
	return Chain2(s1, Chain5(s2, s3, s4, s5, s6))
}

// Chain7 is Chain2 for seven steps.
func Chain7[A, B, C, D, E, F, G, H any](s1 Step[A, B], s2 Step[B, C], s3 Step[C, D], s4 Step[D, E], s5 Step[E, F], s6 Step[F, G], s7 Step[G, H]) Step[A, H] {
	return Chain2(s1, Chain6(s2, s3, s4, s5, s6, s7))
}

// Chain8 is Chain2 for eight steps.
func Chain8[A, B, C, D, E, F, G, H, I any](s1 Step[A, B], s2 Step[B, C], s3 Step[C, D], s4 Step[D, E], s5 Step[E, F], s6 Step[F, G],
	s7 Step[G, H], s8 Step[H, I]) Step[A, I] {
	return Chain2(s1, Chain7(s2, s3, s4, s5, s6, s7, s8))
}
