package grpcpeer

import (
	"context"
	"sync"
	"time"
)

// slowHandshake is how long a handshake takes on a machine that has too much to do. Fewer are made at once then, so that each
// of them ends in time.
const slowHandshake = 500 * time.Millisecond

// adaptiveLimit bounds how many dials are under way. The bound begins at max. It is halved when a handshake took longer than
// slowHandshake, and grows by one when as many as it allows were quick. It is safe for concurrent use.
type adaptiveLimit struct {
	max int

	mu      sync.Mutex
	bound   float64       // 1 to max; guarded by mu
	used    int           // guarded by mu
	changed chan struct{} // closed when a place is free; guarded by mu
	lowered time.Time     // guarded by mu
}

func newAdaptiveLimit(most int) *adaptiveLimit {
	return &adaptiveLimit{max: most, bound: float64(most), changed: make(chan struct{})}
}

// acquire waits for a place to dial t. It returns errNewHint when the candidate is dropped, or may have a better address, and
// otherwise ctx's error.
func (a *adaptiveLimit) acquire(ctx context.Context, t target) error {
	for {
		a.mu.Lock()
		changed, free := a.changed, a.used < int(a.bound)
		if free {
			a.used++
		}
		a.mu.Unlock()
		if free {
			return nil
		}
		select {
		case <-changed:
		case <-t.better:
			return errNewHint
		case <-t.dropped:
			return errNewHint
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// release frees a place. handshake is how long the handshake took; 0 = there was none.
func (a *adaptiveLimit) release(handshake time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used--
	switch now := time.Now(); {
	case handshake == 0:
	case handshake < slowHandshake:
		a.bound = min(float64(a.max), a.bound+1/a.bound)
	case now.Sub(a.lowered) > slowHandshake: // those that were under way together count once
		a.bound, a.lowered = max(1, a.bound/2), now
	}
	close(a.changed)
	a.changed = make(chan struct{})
}
