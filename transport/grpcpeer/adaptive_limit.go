package grpcpeer

import (
	"context"
	"slices"
	"sync"
	"time"
)

// slowHandshake is how long a handshake takes on a machine that has too much to do. Fewer are made at once then, so that each
// of them ends in time.
const slowHandshake = 500 * time.Millisecond

// adaptiveLimit bounds how many dials are under way. The bound begins at max. It is halved when a handshake took longer than
// slowHandshake, and grows by one when as many as it allows were quick. Places are given in the order of the requests, so that
// no candidate waits for others that are dialed again and again. It is safe for concurrent use.
type adaptiveLimit struct {
	max int

	mu      sync.Mutex
	bound   float64         // 1 to max; guarded by mu
	used    int             // guarded by mu
	waiting []chan struct{} // each is closed when it is given a place; guarded by mu
	lowered time.Time       // guarded by mu
}

func newAdaptiveLimit(most int) *adaptiveLimit {
	return &adaptiveLimit{max: most, bound: float64(most)}
}

// acquire waits for a place to dial t. It returns errNewHint when the candidate is dropped, or may have a better address, and
// otherwise ctx's error.
func (a *adaptiveLimit) acquire(ctx context.Context, t target) error {
	turn := make(chan struct{})
	a.mu.Lock()
	a.waiting = append(a.waiting, turn)
	a.give()
	a.mu.Unlock()
	var err error
	select {
	case <-turn:
		return nil
	case <-t.better:
		err = errNewHint
	case <-t.dropped:
		err = errNewHint
	case <-ctx.Done():
		err = ctx.Err()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.Index(a.waiting, turn); i >= 0 {
		a.waiting = slices.Delete(a.waiting, i, i+1)
	} else { // it was given a place meanwhile
		a.used--
		a.give()
	}
	return err
}

// give gives the free places to those that wait longest. The caller holds mu.
func (a *adaptiveLimit) give() {
	for len(a.waiting) > 0 && a.used < int(a.bound) {
		close(a.waiting[0])
		a.waiting = a.waiting[1:]
		a.used++
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
	a.give()
}
