package grpcpeer

import (
	"cmp"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"symbio/community"
)

// maxRecords is how many nodes that are not connected any more, and refused connections of unproven nodes, are
// kept for people to see.
const maxRecords = 256

// maxAge is for how long, and maxUnprovenAge for unproven nodes.
const (
	maxAge         = time.Hour
	maxUnprovenAge = 5 * time.Minute
)

// reportInterval is how long the same refusal of the same node is not reported again.
const reportInterval = time.Minute

// records remembers nodes that are not connected and connections that were refused, so that "symbio
// nodes" and doctor can show why. It also logs and reports events. It is safe for concurrent use
// and holds at most maxRecords entries.
type records struct {
	report func(Event)
	log    *slog.Logger
	// removed is why this node seems to be removed from its cluster; nil = it does not.
	removed atomic.Pointer[string]

	mu    sync.Mutex
	byKey map[string]*record // guarded by mu
}

// record is one remembered node or host. reported is when its current reason was last reported.
type record struct {
	status   NodeStatus
	reported time.Time
}

// add logs an event at the level a person expects (a lost node is a warning, an unreachable one is
// not) and passes it to Config.Report. The caller must not hold r.mu: Report is foreign code.
func (r *records) add(e Event) {
	attrs := []any{"node", e.Node, "name", e.Name, "addr", e.Addr}
	switch e.Kind {
	case Connected:
		r.log.Info("node connected", attrs...)
	case Left:
		r.log.Info("node left", append(attrs, "why", e.Why)...)
	case Entrusted:
		r.log.Warn("entrusted with the cluster's authority", attrs...)
	case Lost:
		r.log.Warn("node lost", append(attrs, "why", e.Why)...)
	case Refused:
		r.log.Warn("node refused", append(attrs, "why", e.Why)...)
	case Unreachable:
		r.log.Debug("node not reached", append(attrs, "why", e.Why)...)
	}
	r.report(e)
}

// store remembers a node whose link has ended.
func (r *records) store(s NodeStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put("node "+string(s.ID), s)
}

// put stores s under key and evicts the oldest entry when there are too many. It keeps the time of
// the last report if the reason is the same, so that a repeated refusal is not reported again. The
// caller holds r.mu.
func (r *records) put(key string, s NodeStatus) *record {
	if r.byKey[key] == nil && len(r.byKey) >= maxRecords {
		oldest := ""
		for k, one := range r.byKey {
			if oldest == "" || one.status.Since.Before(r.byKey[oldest].status.Since) {
				oldest = k
			}
		}
		delete(r.byKey, oldest)
	}
	one := &record{status: s}
	if was := r.byKey[key]; was != nil && was.status.Why == s.Why {
		one.reported = was.reported
	}
	r.byKey[key] = one
	return one
}

// reportUnproven remembers and reports an incoming connection that was refused before its node was
// verified. host is without the port, which changes with each attempt.
func (r *records) reportUnproven(host, why string) {
	r.reportOnce("unproven "+host, Event{Kind: Refused, Addr: host, Why: why})
}

// reportOnce remembers e and reports it, unless an event with the same key and reason was reported
// within reportInterval. A peer that retries a thousand times must not fill the log.
func (r *records) reportOnce(key string, e Event) {
	now := time.Now()
	r.mu.Lock()
	one := r.put(key, NodeStatus{State: StateRefused, Addr: e.Addr, Why: e.Why, Since: now})
	again := now.Sub(one.reported) < reportInterval
	if !again {
		one.reported = now
	}
	r.mu.Unlock()
	if !again {
		r.add(e)
	}
}

// list returns the records that are recent enough to interest a person, without the nodes in
// listed.
func (r *records) list(listed map[community.NodeID]bool) (out []NodeStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.byKey {
		s, age := one.status, time.Since(one.status.Since)
		if s.ID == "" && age < maxUnprovenAge || s.ID != "" && age < maxAge && !listed[s.ID] {
			out = append(out, s)
		}
	}
	return out
}

// Nodes returns the status of this node first, then of every node that is or was connected, of
// candidates that could not be connected, and of refused connections, sorted by state, id and
// address. It is a snapshot; it may be called at any time.
func (n *Network) Nodes() []NodeStatus {
	all := []NodeStatus{{
		ID: n.self(), Name: n.cfg.Name, State: StateSelf, Addr: n.Addr().String(), Protocol: protocol.String(),
		CertDaysLeft: daysUntil(n.cfg.Identity.NotAfter()), Authority: n.cfg.Identity.Cluster() != nil,
	}}
	if why := n.records.removed.Load(); why != nil {
		all[0].Why = *why
	}
	listed := map[community.NodeID]bool{n.self(): true}
	sources := n.candidates.sources()
	for l := range n.links.all() {
		listed[l.peer.ID] = true
		via := ViaDialled
		if l.at == (endpoint{}) {
			via = ViaReversed
		}
		all = append(all, NodeStatus{
			Via: via, Sources: sources[l.peer.ID],
			ID: l.peer.ID, Name: l.peer.Name, State: StateConnected, Addr: l.peer.Addr, RTT: l.about.rtt, Members: int(l.about.members.Load()),
			Protocol: l.about.protocol.String(), CertDaysLeft: daysUntil(l.certs.theirs.end()), Since: l.since,
			Authority: l.about.authority.Load(), ClockAhead: l.about.clockAhead.Load(),
		})
	}
	all = append(all, n.candidates.members.list(listed)...)
	all = append(all, n.candidates.list(listed)...)
	all = append(all, n.records.list(listed)...)
	r := n.cfg.Identity.Rotation()
	all[0].Rotation = r.Progress(r.Standing())
	for i, s := range all[1:] {
		if s.State == StateConnected {
			all[i+1].Rotation = r.Progress(n.server.renewal.standing(s.ID))
		}
	}
	slices.SortStableFunc(all[1:], func(a, b NodeStatus) int {
		return cmp.Or(cmp.Compare(a.State, b.State), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Addr, b.Addr))
	})
	return all
}

// daysUntil returns whole days, rounded down: a certificate that ended an hour ago has -1 days
// left.
func daysUntil(t time.Time) int { return int(math.Floor(time.Until(t).Hours() / 24)) }
