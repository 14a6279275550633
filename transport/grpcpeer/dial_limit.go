package grpcpeer

import (
	"context"
	"net/netip"
	"sync"
)

// maxUnprovenDials is how many candidates that were never reached are dialled at one address of another machine at
// a time: a forger that claims a thousand nodes at an address without any takes no more of Limits.Dials.
const maxUnprovenDials = 2

// addrLimiter makes candidates wait while others at their address are dialled.
type addrLimiter struct {
	mu sync.Mutex
	at map[netip.Addr]*addrPlaces // guarded by mu
}

type addrPlaces struct {
	free  chan struct{}
	users int // waiting or being dialled; guarded by addrLimiter.mu
}

func newAddrLimiter() addrLimiter { return addrLimiter{at: map[netip.Addr]*addrPlaces{}} }

// acquire waits for a place, unless the target was connected before or is on this machine. release gives it back.
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
