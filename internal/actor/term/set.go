package term

import (
	"context"
	"sync"
	"time"
)

// Set groups the Terms of one owner, such as a connection, that end with it. One timer serves all
// of them. The zero Set is empty and ready to use. Its owner must call End once. It is safe for
// concurrent use.
type Set struct {
	mu    sync.Mutex
	first *Term       // guarded by mu
	ended bool        // guarded by mu
	timer *time.Timer // made by the first Term with a deadline; guarded by mu
	due   time.Time   // when timer fires, zero if it does not; guarded by mu
}

// Begin returns a Term that ends with its parent, after within, or with the Set, whichever comes
// first. The caller must Close it.
func (s *Set) Begin(parent context.Context, within time.Duration) *Term {
	t := &Term{}
	s.Start(t, parent, within)
	return t
}

// Start is Begin for a zero Term that the caller has.
func (s *Set) Start(t *Term, parent context.Context, within time.Duration) {
	t.Context, t.set, t.at, t.own = parent, s, time.Now().Add(within), true
	if at, ok := parent.Deadline(); ok && !at.After(t.at) {
		t.own = false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		t.err = context.Canceled
		return
	}
	t.in, t.next = true, s.first
	if s.first != nil {
		s.first.prev = t
	}
	s.first = t
	if t.own && (s.due.IsZero() || t.at.Before(s.due)) {
		s.arm(t.at)
	}
}

// remove takes t out of the Set; it does nothing after End.
func (s *Set) remove(t *Term) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlink(t)
}

// unlink takes t out of the list. The caller holds s.mu.
func (s *Set) unlink(t *Term) {
	if !t.in {
		return
	}
	t.in = false
	if t.prev == nil {
		s.first = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next != nil {
		t.next.prev = t.prev
	}
	t.prev, t.next = nil, nil
}

// arm sets the timer. The timer is not reset when a Term closes early, because most do: sweep finds
// nothing to end then. The caller holds s.mu.
func (s *Set) arm(at time.Time) {
	s.due = at
	if s.timer == nil {
		s.timer = time.AfterFunc(time.Until(at), s.sweep)
		return
	}
	s.timer.Reset(time.Until(at))
}

// sweep ends the Terms whose deadline has passed, outside the lock, and sets the timer for the next
// one.
func (s *Set) sweep() {
	var late []*Term
	s.mu.Lock()
	now, next := time.Now(), time.Time{}
	for t := s.first; t != nil; {
		after := t.next
		switch {
		case !t.own:
		case !t.at.After(now):
			s.unlink(t)
			late = append(late, t)
		case next.IsZero() || t.at.Before(next):
			next = t.at
		}
		t = after
	}
	s.due = time.Time{}
	if !next.IsZero() && !s.ended {
		s.arm(next)
	}
	s.mu.Unlock()
	for _, t := range late {
		t.end(context.DeadlineExceeded, nil)
	}
}

// End ends all Terms with the given cause, and makes Begin return Terms that have ended.
func (s *Set) End(cause error) {
	s.mu.Lock()
	var all []*Term
	for s.first != nil {
		all = append(all, s.first)
		s.unlink(s.first)
	}
	s.ended = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	for _, t := range all {
		t.end(context.Canceled, cause)
	}
}
