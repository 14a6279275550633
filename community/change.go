package community

import (
	"cmp"
	"context"
	"slices"
	"strings"
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
	c     *Community
	own   bool          // changes of this node only
	ready chan struct{} // capacity 1: look at the queue

	mu     sync.Mutex // taken after Community.mu
	queue  []Change   // guarded by mu
	missed int        // changes since the queue was full; guarded by mu
	over   bool       // nothing is added any more; guarded by mu
}

// Subscribe begins with a Snapshot of all members, here and on other nodes; every change after it
// follows in order. There can be any number of subscribers, they cost no goroutine, and none can
// slow down the community or another: 256 changes wait for each, then it gets a Gap.
func (c *Community) Subscribe() *Subscription { return c.subscribe(false) }

// SubscribeLocal is Subscribe for what other nodes may know: the members of this node, and the node
// itself, whose capabilities it provides. When those change, a new Snapshot comes.
func (c *Community) SubscribeLocal() *Subscription { return c.subscribe(true) }

func (c *Community) subscribe(own bool) *Subscription {
	s := &Subscription{c: c, own: own, ready: make(chan struct{}, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.add(c.picture(s, Snapshot))
	c.subs[own][s] = struct{}{}
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
	s.c.mu.Lock()
	delete(s.c.subs[s.own], s)
	s.c.mu.Unlock()
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
		s.c.mu.RLock()
		defer s.c.mu.RUnlock()
		s.mu.Lock()
		if len(s.queue) == 0 && s.missed > 0 {
			gap := s.c.picture(s, Gap)
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

// publish tells the subscribers; local says that the change is of this node. It needs c.mu, so that
// the order of changes is the order in which they happened.
func (c *Community) publish(ch Change, local bool) {
	for s := range c.subs[false] {
		s.add(ch)
	}
	if local {
		for s := range c.subs[true] { // one for each other node, so that a change of theirs must not look at it
			s.add(ch)
		}
	}
}

// publishOffers tells other nodes that our capabilities have changed. It needs c.mu.
func (c *Community) publishOffers() {
	for s := range c.subs[true] {
		s.add(c.picture(s, Snapshot))
	}
}

// picture is all that s may see. It needs c.mu, or its read lock.
func (c *Community) picture(s *Subscription, k Kind) Change {
	if s.own {
		own := c.catalog()
		return Change{Kind: k, Members: own.Members, Capabilities: own.Capabilities}
	}
	return Change{Kind: k, Members: c.everyone()}
}

// Catalog is what this node lets others see now: its agents, its capabilities, and itself as the
// member that provides them.
func (c *Community) Catalog() Catalog {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.catalog()
}

// catalog needs c.mu, or its read lock.
func (c *Community) catalog() Catalog {
	self := Member{ID: MemberID(c.cfg.Node), Name: c.cfg.Name, Node: c.cfg.Node, Available: true, Metadata: c.cfg.Metadata}
	all := Catalog{Members: make([]Member, 0, len(c.residents)+1)}
	for _, r := range c.residents {
		all.Members = append(all.Members, r.self)
	}
	for _, o := range c.offers {
		all.Capabilities = append(all.Capabilities, o.Capability)
		self.Provides = append(self.Provides, o.Name)
	}
	slices.Sort(self.Provides)
	slices.SortFunc(all.Capabilities, func(a, b Capability) int { return strings.Compare(a.Name, b.Name) })
	all.Members = append(all.Members, self)
	slices.SortFunc(all.Members, byName)
	return all
}

// everyone needs c.mu, or its read lock.
func (c *Community) everyone() []Member { return c.pick(func(Member) bool { return true }) }

// pick returns the members that want wants, sorted. It needs c.mu, or its read lock.
func (c *Community) pick(want func(Member) bool) []Member {
	var all []Member
	for _, r := range c.residents {
		if want(r.self) {
			all = append(all, r.self)
		}
	}
	for _, m := range c.remote {
		if want(m) {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, byName)
	return all
}

func byName(a, b Member) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(string(a.ID), string(b.ID)))
}
