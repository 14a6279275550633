package grpcpeer

import (
	"context"
	"net/netip"
	"sync"
)

// strangersAt is how many strangers are dialled at one address of another machine at a time: whoever claims that a
// thousand nodes are there, where nobody answers, keeps no more of Limits.Dials from the others.
const strangersAt = 2

// lines are where strangers wait until others at their address have been dialled.
type lines struct {
	mu sync.Mutex
	at map[netip.Addr]*line // guarded by mu
}

type line struct {
	places chan struct{}
	in     int // waiting or being dialled; guarded by lines.mu
}

// enter waits for a place, unless the target was connected before or is on this machine. leave gives it back.
func (s *lines) enter(ctx context.Context, t target) (leave func(), err error) {
	if t.proven != "" || len(t.addrs) == 0 || t.addrs[0].Addr().IsLoopback() {
		return func() {}, nil
	}
	a := t.addrs[0].Addr()
	s.mu.Lock()
	l := s.at[a]
	if l == nil {
		l = &line{places: make(chan struct{}, strangersAt)}
		s.at[a] = l
	}
	l.in++
	s.mu.Unlock()
	out := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if l.in--; l.in == 0 {
			delete(s.at, a)
		}
	}
	select {
	case l.places <- struct{}{}:
		return func() { <-l.places; out() }, nil
	case <-ctx.Done():
		out()
		return nil, ctx.Err()
	}
}
