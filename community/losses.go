package community

import (
	"strings"
	"sync/atomic"

	"golang.org/x/time/rate"
)

// Undelivered is what became of signals of Tell that were not handled.
type Undelivered struct {
	// Node is where they were to go.
	Node NodeID
	// Member and Perception are the member they were for, and as what; both "" when that is not known.
	Member     MemberID
	Perception string
	// Count is how many.
	Count uint64
	// Err is why: what Send would have returned. ErrUnavailable says that the connection ended before
	// the node had told what became of them: they may have been handled.
	Err error
}

// losses counts and reports signals of Tell that were not handled, or perhaps not.
type losses struct {
	cfg    *Config
	roster *roster
	count  atomic.Uint64
	logged *rate.Limiter
}

func newLosses(cfg *Config, r *roster) *losses {
	return &losses{cfg: cfg, roster: r, logged: rate.NewLimiter(rate.Every(reportEach), reportBurst)}
}

// NotDelivered counts and reports that signals came to nothing, for the Network. A peer can only report
// signals for its own members; others are counted without their member.
func (l *losses) NotDelivered(u Undelivered) {
	if u.Count == 0 {
		return
	}
	if u.Err == nil {
		u.Err = ErrUnavailable
	}
	u.Perception = strings.TrimPrefix(u.Perception, PerceptionPrefix)
	if !l.mayBeOf(u.Node, u.Member) || checkName("perception", u.Perception) != nil {
		u.Member, u.Perception = "", ""
	}
	l.count.Add(u.Count)
	if l.logged.Allow() {
		l.cfg.Logger.Warn("signals not delivered", "node", u.Node, "member", u.Member, "perception", u.Perception, "count", u.Count, "err", u.Err)
	}
	if l.cfg.Undelivered != nil {
		l.cfg.Undelivered(u)
	}
}

// mayBeOf reports whether a member is, or may have been, one of the node's.
func (l *losses) mayBeOf(node NodeID, id MemberID) bool {
	if checkID(string(id)) != nil {
		return false
	}
	if node == l.cfg.Node {
		return true
	}
	l.roster.mu.RLock()
	defer l.roster.mu.RUnlock()
	m, known := l.roster.remote[id]
	_, local := l.roster.agents[id]
	return !local && (!known || m.Node == node)
}

// Undelivered returns how many signals of Tell were not handled, or perhaps not.
func (l *losses) Undelivered() uint64 { return l.count.Load() }
