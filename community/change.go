package community

import (
	"context"
	"sync"
)

// ChangeKind is the kind of a Change.
type ChangeKind string

const (
	// Snapshot is the first change of a subscription, and can come again. Members are all members; they replace
	// what the subscriber knew.
	Snapshot ChangeKind = "snapshot"
	Joined   ChangeKind = "joined"
	// Left: the member is gone and does not come back. Why has the reason.
	Left ChangeKind = "left"
	// Updated: the member's description has changed.
	Updated         ChangeKind = "updated"
	BecameAvailable ChangeKind = "became available"
	// BecameUnavailable: the member's node cannot be reached. Why has the reason. Left or BecameAvailable follows.
	BecameUnavailable ChangeKind = "became unavailable"
	// Gap: the subscriber was too slow and missed Missed changes. Members are all members now.
	Gap ChangeKind = "gap"
)

// Change is an event of the community.
type Change struct {
	Kind   ChangeKind
	Member Member // of all kinds but Snapshot and Gap: as it is now, or was when it left
	// Members and Capabilities come with Snapshot and Gap, sorted by name. Capabilities are the capabilities of this node,
	// and come only with SubscribeLocal.
	Members      []Member
	Capabilities []Capability
	Missed       int
	Why          string
}

// backlog is how many changes wait for a subscriber: enough for all agents that a person would start at once.
const backlog = 256

// Subscription delivers changes to one subscriber, which must call Close. Several goroutines may call Next; each
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

// Subscribe returns a subscription that begins with a Snapshot of all members, of this node and others, and
// continues with every change in order. A subscriber costs no goroutine and cannot delay the community: 256
// changes wait for it, then it gets a Gap.
func (c *Community) Subscribe() *Subscription { return c.roster.subscribe(false) }

// SubscribeLocal is Subscribe for what other nodes may know: the members of this node, and the node itself with
// its capabilities. After a change of the capabilities a new Snapshot comes.
func (c *Community) SubscribeLocal() *Subscription { return c.roster.subscribe(true) }

func (r *roster) subscribe(own bool) *Subscription {
	s := &Subscription{roster: r, own: own, ready: make(chan struct{}, 1)}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.add(r.snapshot(s, Snapshot))
	r.subs[own][s] = struct{}{}
	return s
}

// Next waits for the next change; one that is there already comes even when ctx has ended. It returns
// the cause of ctx when that ends first, and ErrStopped after Close, or when the community has ended
// and nothing is left to deliver.
func (s *Subscription) Next(ctx context.Context) (Change, error) {
	for {
		ch, ok, over := s.dequeue()
		switch {
		case ok:
			return ch, nil
		case over:
			s.wake() // for the next waiting call
			return Change{}, ErrStopped
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			return Change{}, context.Cause(ctx)
		}
	}
}

// Close ends the subscription: Next then returns ErrStopped. It may be called more than once, and during Next.
func (s *Subscription) Close() {
	s.roster.mu.Lock()
	delete(s.roster.subs[s.own], s)
	s.roster.mu.Unlock()
	s.mu.Lock()
	s.queue, s.missed = nil, 0
	s.mu.Unlock()
	s.finish()
}

// dequeue returns the next change if there is one. over reports that there will be no more.
func (s *Subscription) dequeue() (ch Change, ok, over bool) {
	s.mu.Lock()
	if len(s.queue) == 0 && s.missed > 0 {
		// The picture must be of the very moment between two changes, so nothing may be published
		// while it is taken.
		s.mu.Unlock()
		s.roster.mu.RLock()
		defer s.roster.mu.RUnlock()
		s.mu.Lock()
		if len(s.queue) == 0 && s.missed > 0 {
			gap := s.roster.snapshot(s, Gap)
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

// add queues a change, or counts it as missed if the queue is full. It never blocks.
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

// finish ends the subscription after the queued changes.
func (s *Subscription) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.wake()
}

// wake makes one waiting Next look at the queue.
func (s *Subscription) wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// publish queues a change for the subscribers. local means that the change is of this node. The caller must hold
// r.mu, so that the order of the queue is the order of the changes.
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

// publishOffers queues a Snapshot for other nodes after a change of this node's capabilities. The caller must hold
// r.mu.
func (r *roster) publishOffers() {
	for s := range r.subs[true] {
		s.add(r.snapshot(s, Snapshot))
	}
}

// snapshot returns a change with all that s may see. The caller must hold r.mu, at least for reading.
func (r *roster) snapshot(s *Subscription, k ChangeKind) Change {
	if s.own {
		own := r.catalog()
		return Change{Kind: k, Members: own.Members, Capabilities: own.Capabilities}
	}
	return Change{Kind: k, Members: r.pick(func(Member) bool { return true })}
}

// endSubscriptions ends all subscriptions when the community stops.
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
