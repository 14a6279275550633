package community

import (
	"context"
	"sync"
)

// Kind says what has changed.
type Kind string

const (
	// Snapshot is the first change a subscriber gets: Members are all there are. It forgets what it
	// knew.
	Snapshot Kind = "snapshot"
	Joined   Kind = "joined"
	// Left: the member is gone for good; Why says why.
	Left Kind = "left"
	// Updated: what the member says of itself is different now.
	Updated         Kind = "updated"
	BecameAvailable Kind = "became available"
	// BecameUnavailable: the member's node cannot be reached; Why says why. Left or BecameAvailable
	// follows.
	BecameUnavailable Kind = "became unavailable"
	// Gap: the subscriber was too slow and has missed Missed changes. Members are all there are now.
	Gap Kind = "gap"
)

// Change is an event of the community (spec: CommunityChange).
type Change struct {
	Kind   Kind
	Member Member // of all kinds but Snapshot and Gap: as it is now, or was when it left
	// Members and Capabilities come with Snapshot and Gap, sorted by name. Capabilities are those of
	// this node, and only SubscribeLocal's.
	Members      []Member
	Capabilities []Capability
	Missed       int
	Why          string
}

// backlog is how many changes wait for a subscriber. It holds a node with as many agents as a
// person would start, joining at once.
const backlog = 256

// Subscription delivers changes to one subscriber. Close it. Several goroutines may call Next; each
// change goes to one of them.
type Subscription struct {
	roster *roster
	own    bool          // changes of this node only
	ready  chan struct{} // capacity 1: look at the queue

	mu     sync.Mutex // taken after roster.mu
	queue  []Change   // guarded by mu
	missed int        // changes since the queue was full; guarded by mu
	over   bool       // nothing is added any more; guarded by mu
}

// Subscribe begins with a Snapshot of all members, here and on other nodes; every change after it
// follows in order. There can be any number of subscribers, they cost no goroutine, and none can
// slow down the community or another: 256 changes wait for each, then it gets a Gap.
func (r *roster) Subscribe() *Subscription { return r.subscribe(false) }

// SubscribeLocal is Subscribe for what other nodes may know: the members of this node, and the node
// itself, whose capabilities it provides. When those change, a new Snapshot comes.
func (r *roster) SubscribeLocal() *Subscription { return r.subscribe(true) }

func (r *roster) subscribe(own bool) *Subscription {
	s := &Subscription{roster: r, own: own, ready: make(chan struct{}, 1)}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.add(r.picture(s, Snapshot))
	r.subs[own][s] = struct{}{}
	return s
}

// Next waits for the next change; one that is there already comes even when ctx has ended. It returns
// the cause of ctx when that ends first, and ErrStopped after Close, or when the community has ended
// and nothing is left to deliver.
func (s *Subscription) Next(ctx context.Context) (Change, error) {
	for {
		ch, ok, over := s.take()
		switch {
		case ok:
			return ch, nil
		case over:
			s.wake() // for the next one who waits
			return Change{}, ErrStopped
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			return Change{}, context.Cause(ctx)
		}
	}
}

// Close ends the subscription: Next returns ErrStopped. It may be called again, and while others
// wait in Next.
func (s *Subscription) Close() {
	s.roster.mu.Lock()
	delete(s.roster.subs[s.own], s)
	s.roster.mu.Unlock()
	s.mu.Lock()
	s.queue, s.missed = nil, 0
	s.mu.Unlock()
	s.finish()
}

// take returns the next change if there is one, and whether there will be none.
func (s *Subscription) take() (ch Change, ok, over bool) {
	s.mu.Lock()
	if len(s.queue) == 0 && s.missed > 0 {
		// The picture must be of the very moment between two changes, so nothing may be published
		// while it is taken.
		s.mu.Unlock()
		s.roster.mu.RLock()
		defer s.roster.mu.RUnlock()
		s.mu.Lock()
		if len(s.queue) == 0 && s.missed > 0 {
			gap := s.roster.picture(s, Gap)
			gap.Missed, s.missed = s.missed, 0
			s.mu.Unlock()
			return gap, true, false
		}
	}
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return Change{}, false, s.over
	}
	ch = s.queue[0]
	s.queue[0] = Change{}
	s.queue = s.queue[1:]
	if len(s.queue) > 0 || s.missed > 0 || s.over {
		s.wake()
	}
	return ch, true, false
}

// add queues a change, or counts it as missed. It never blocks.
func (s *Subscription) add(ch Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return
	case s.missed > 0 || len(s.queue) >= backlog:
		s.missed++
	default:
		s.queue = append(s.queue, ch)
	}
	s.wake()
}

// finish lets Next deliver what is queued, and then end.
func (s *Subscription) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.wake()
}

func (s *Subscription) wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// publish tells the subscribers; local says that the change is of this node. It needs r.mu, so that
// the order of changes is the order in which they happened.
func (r *roster) publish(ch Change, local bool) {
	for s := range r.subs[false] {
		s.add(ch)
	}
	if local { // there is one of these for each other node: a change of theirs must not visit them all
		for s := range r.subs[true] {
			s.add(ch)
		}
	}
}

// publishOffers tells other nodes that our capabilities have changed. It needs r.mu.
func (r *roster) publishOffers() {
	for s := range r.subs[true] {
		s.add(r.picture(s, Snapshot))
	}
}

// picture is all that s may see. It needs r.mu, or its read lock.
func (r *roster) picture(s *Subscription, k Kind) Change {
	if s.own {
		own := r.catalog()
		return Change{Kind: k, Members: own.Members, Capabilities: own.Capabilities}
	}
	return Change{Kind: k, Members: r.pick(func(Member) bool { return true })}
}

func (r *roster) endSubscriptions() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, subs := range r.subs {
		for s := range subs {
			s.finish()
		}
		clear(subs)
	}
}
