package community

import (
	"cmp"
	"strings"
	"sync/atomic"

	"golang.org/x/time/rate"
)

// DeliveryFailure describes signals of Tell that were not handled.
type DeliveryFailure struct {
	// Node is where they were to go.
	Node NodeID
	// Member and Perception are the receiver and the kind of the signals; both "" if that is not known.
	Member     MemberID
	Perception string
	// Count is the number of signals.
	Count uint64
	// Err is the error that Send would have returned. ErrUnavailable: the connection ended before the node had
	// reported a result, so the signals may have been handled.
	Err error
}

// deliveryFailures counts and reports signals of Tell that were not handled, or whose result is not known.
type deliveryFailures struct {
	cfg    *Config
	roster *roster
	count  atomic.Uint64
	logged *rate.Limiter
}

func newDeliveryFailures(cfg *Config, r *roster) *deliveryFailures {
	return &deliveryFailures{cfg: cfg, roster: r, logged: rate.NewLimiter(rate.Every(reportInterval), reportBurst)}
}

// ReportUndelivered counts and reports signals that were not handled, for the Network. A peer can report only
// signals for its own members; other signals are counted without their member.
func (c *Community) ReportUndelivered(u DeliveryFailure) { c.undelivered.report(u) }

func (l *deliveryFailures) report(u DeliveryFailure) {
	if u.Count == 0 {
		return
	}
	u.Err = cmp.Or(u.Err, ErrUnavailable)
	u.Perception = strings.TrimPrefix(u.Perception, PerceptionPrefix)
	if !l.canBelongTo(u.Node, u.Member) || checkName("perception", u.Perception) != nil {
		u.Member, u.Perception = "", ""
	}
	l.count.Add(u.Count)
	if l.logged.Allow() {
		l.cfg.Logger.Warn("signals not delivered", "node", u.Node, "member", u.Member, "perception", u.Perception, "count", u.Count, "err", u.Err)
	}
	if l.cfg.OnUndelivered != nil {
		l.cfg.OnUndelivered(u)
	}
}

// canBelongTo reports whether a member is, or may have been, one of the node's.
func (l *deliveryFailures) canBelongTo(node NodeID, id MemberID) bool {
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
func (c *Community) Undelivered() uint64 { return c.undelivered.count.Load() }
