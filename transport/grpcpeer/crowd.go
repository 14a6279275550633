package grpcpeer

import (
	"sync/atomic"
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
	// contactPause is how long a candidate waits at least while firstContacts others are dialed.
	contactPause = 20 * time.Millisecond
	// crowdGrace is how long a crowd may take to be dialed after that, before a node that dialed is asked for a reversed connection.
	crowdGrace = 10 * time.Second
	crowdRate  = 1
)

// firstDials are the dials of candidates that were never reached, in a crowd.
type firstDials struct {
	turns    *rate.Limiter
	underWay atomic.Int64
}

// holdBack returns how long not to dial a candidate yet, so that many nodes that start at once do not all dial each other.
func (m *membership) holdBack(k *candidate) time.Duration {
	dialing := int(m.first.underWay.Load())
	if m.gossip == nil || m.links.count()+dialing < firstContacts {
		return 0
	}
	m.candidates.mu.Lock()
	defer m.candidates.mu.Unlock()
	if len(k.demand.waiting) > 0 || k.demand.vouched || k.proven != "" || k.fails > 0 {
		return 0
	}
	if len(m.candidates.byKey) <= smallCluster {
		if dialing < firstContacts {
			return 0
		}
		return jitter(contactPause)
	}
	if rest := crowdPause - time.Since(k.crowd.added); rest > 0 || k.crowd.came {
		return rest
	}
	k.crowd.came = true
	return m.first.turns.Reserve().Delay()
}

// grace returns how long this node may take to dial a node that has dialed it.
func (m *membership) grace() time.Duration {
	m.candidates.mu.Lock()
	defer m.candidates.mu.Unlock()
	if m.gossip != nil && len(m.candidates.byKey) > smallCluster {
		return crowdPause + crowdGrace
	}
	return reverseGrace
}
