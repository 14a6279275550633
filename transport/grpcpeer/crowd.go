package grpcpeer

import (
	"time"

	"golang.org/x/time/rate"
)

// When many nodes start at once, each one hears of all others by discovery. They do not all dial each other: gossip brings them
// together, after a few have met.

const (
	// firstContacts is to how many nodes a node makes links at once, in a crowd of more than smallCluster candidates. It hears
	// of the others by gossip. Those that it does not hear of within crowdPause are dialed one after the other, crowdRate a second.
	firstContacts = 3
	crowdPause    = 5 * time.Second
	// contactPause is how long a candidate waits at least while firstContacts others are dialed. An address that took no
	// connection within slowConnect may be dead: two more are dialed beside it.
	contactPause = 20 * time.Millisecond
	slowConnect  = 50 * time.Millisecond
	// crowdGrace is how long a crowd may take to be dialed after that, before a node that dialed is asked for a reversed connection.
	crowdGrace = 10 * time.Second
	crowdRate  = 1
)

// firstDials are the dials of candidates that were never reached, in a crowd.
type firstDials struct {
	members  *membership
	turns    *rate.Limiter
	underWay int // guarded by candidates.mu
	places   int // for dials that are under way and for links, until there are firstContacts links; guarded by candidates.mu
}

func newFirstDials(m *membership) *firstDials {
	return &firstDials{members: m, turns: rate.NewLimiter(crowdRate, 1), places: firstContacts}
}

// holdBack returns how long not to dial a candidate yet, so that many nodes that start at once do not all dial each other.
func (f *firstDials) holdBack(k *candidate) time.Duration {
	f.members.candidates.mu.Lock()
	defer f.members.candidates.mu.Unlock()
	return f.heldBack(k)
}

// begin notes that a candidate is being dialed, until done is called. It returns false while the candidate is held back.
func (f *firstDials) begin(k *candidate) (done func(), ok bool) {
	f.members.candidates.mu.Lock()
	defer f.members.candidates.mu.Unlock()
	if f.heldBack(k) > 0 {
		return nil, false
	}
	f.underWay++
	return func() {
		f.members.candidates.mu.Lock()
		defer f.members.candidates.mu.Unlock()
		f.underWay--
	}, true
}

// connecting makes places for two more dials while the present one is not connected for long. stop is called at its end.
func (f *firstDials) connecting() (stop func()) {
	widen := func(by int) {
		f.members.candidates.mu.Lock()
		defer f.members.candidates.mu.Unlock()
		f.places += by
	}
	slow := time.AfterFunc(slowConnect, func() { widen(2) })
	return func() {
		if !slow.Stop() {
			widen(-2)
		}
	}
}

// heldBack is holdBack. The caller holds candidates.mu.
func (f *firstDials) heldBack(k *candidate) time.Duration {
	if f.members.gossip == nil || len(k.demand.waiting) > 0 || k.demand.vouched || k.proven != "" || k.fails > 0 {
		return 0
	}
	links, small := f.members.links.count(), len(f.members.candidates.byKey) <= smallCluster
	if small || links < firstContacts {
		used := f.underWay
		if !small {
			used += links
		}
		if used < f.places {
			return 0
		}
		return jitter(contactPause)
	}
	if rest := crowdPause - time.Since(k.crowd.added); rest > 0 || k.crowd.came {
		return rest
	}
	k.crowd.came = true
	return f.turns.Reserve().Delay()
}

// grace returns how long this node may take to dial a node that has dialed it.
func (f *firstDials) grace() time.Duration {
	f.members.candidates.mu.Lock()
	defer f.members.candidates.mu.Unlock()
	if f.members.gossip != nil && len(f.members.candidates.byKey) > smallCluster {
		return crowdPause + crowdGrace
	}
	return reverseGrace
}
