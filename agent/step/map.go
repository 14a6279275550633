package step

import (
	"context"
	"fmt"
	"sync"
)

// Map gives each of many values to s, at most limit of them at a time, and its output has the
// results in their order. A limit below 1 is 16; with 1 it is a loop.
//
// With more it ends as that loop would: the error is the one of the first item that fails, in the
// order of the items, and says which. Work behind that item is cancelled or not begun, what
// comes before it goes on. All are waited for.
func Map[In, Out any](limit int, s Step[In, Out]) Step[[]In, []Out] {
	return Func(func(ctx context.Context, in []In) ([]Out, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		m := mapping[In, Out]{step: s, out: make([]Out, len(in)), failed: len(in), running: map[int]context.CancelFunc{}}
		return m.run(ctx, cancel, atOnce(limit), in)
	})
}

// mapping is one run of a Map.
type mapping[In, Out any] struct {
	step Step[In, Out]
	out  []Out // each goroutine writes its own

	mu      sync.Mutex
	failed  int // the first item that failed; guarded by mu
	err     error
	running map[int]context.CancelFunc // guarded by mu
}

func (m *mapping[In, Out]) run(ctx context.Context, cancel context.CancelFunc, limit int, in []In) ([]Out, error) {
	places, all := make(chan struct{}, limit), workers{cancel: cancel}
	for i, item := range in {
		if !enter(ctx, places) {
			break
		}
		own, begun := m.begin(ctx, i)
		if !begun {
			break
		}
		all.start(func() {
			defer func() { <-places }()
			attempt(own, m.step, i, item, m.end)
		})
	}
	all.wait()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case m.err != nil:
		return nil, fmt.Errorf("item %d: %w", m.failed, m.err)
	}
	return m.out, nil
}

// begin is the context for an item, unless one before it has failed.
func (m *mapping[In, Out]) begin(ctx context.Context, i int) (context.Context, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed < i {
		return nil, false
	}
	own, cancel := context.WithCancel(ctx)
	m.running[i] = cancel
	return own, true
}

func (m *mapping[In, Out]) end(r Result[Out]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running[r.Index]()
	delete(m.running, r.Index)
	m.out[r.Index] = r.Value
	if r.Err == nil || r.Index > m.failed {
		return
	}
	m.failed, m.err = r.Index, r.Err
	for i, cancel := range m.running {
		if i > r.Index {
			cancel()
		}
	}
}
