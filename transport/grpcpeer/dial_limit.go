package grpcpeer

import (
	"context"
	"net/netip"
	"sync"
)

// maxUnprovenDials is how many candidates that were never reached are dialed at one address of another machine at
// a time: a forger that claims a thousand nodes at an address without any takes no more of Limits.Dials.
const maxUnprovenDials = 2

// addrLimiter bounds the dials of never-reached candidates per IP address. It is safe for
// concurrent use.
type addrLimiter struct {
	mu sync.Mutex
	at map[netip.Addr]*addrPlaces // guarded by mu
}

// addrPlaces is the semaphore of one address. It exists while a dial uses or waits for it.
type addrPlaces struct {
	free  chan struct{}
	users int // waiting or being dialed; guarded by addrLimiter.mu
}

// newAddrLimiter returns a limiter without addresses.
func newAddrLimiter() addrLimiter { return addrLimiter{at: map[netip.Addr]*addrPlaces{}} }

// acquire waits for a slot at the first address of t, and returns a function that frees it. Targets
// on this machine and those that were reached before do not wait. It returns errNewHint when the
// candidate is dropped, or ctx's error.
func (s *addrLimiter) acquire(ctx context.Context, t target) (release func(), err error) {
	if t.proven != "" || len(t.addrs) == 0 || t.addrs[0].Addr().IsLoopback() {
		return func() {}, nil
	}
	a := t.addrs[0].Addr()
	s.mu.Lock()
	p := s.at[a]
	if p == nil {
		p = &addrPlaces{free: make(chan struct{}, maxUnprovenDials)}
		s.at[a] = p
	}
	p.users++
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if p.users--; p.users == 0 {
			delete(s.at, a)
		}
	}
	select {
	case p.free <- struct{}{}:
		return func() { <-p.free; leave() }, nil
	case <-t.dropped:
		leave()
		return nil, errNewHint
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
