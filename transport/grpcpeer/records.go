package grpcpeer

import (
	"cmp"
	"log/slog"
	"math"
	"slices"
	"sync"
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

// records keeps the status of nodes that are not connected, and reports events.
type records struct {
	report func(Event)
	log    *slog.Logger

	mu    sync.Mutex
	byKey map[string]*record // guarded by mu
}

type record struct {
	status   NodeStatus
	reported time.Time
}

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

// store stores a node that is not connected any more.
func (r *records) store(s NodeStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put("node "+string(s.ID), s)
}

// put stores a record, in place of the oldest when there are too many. The caller holds r.mu.
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

// reportUnproven stores a connection that came in and was refused, and reports it unless that was just done: a thousand
// tries do not fill the log.
func (r *records) reportUnproven(host, why string) {
	r.reportOnce("unproven "+host, Event{Kind: Refused, Addr: host, Why: why})
}

// reportOnce is unproven for any event. Events of one key are the same.
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

// list returns the records that are new enough, of nodes that are not listed.
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

// Nodes returns this node, the nodes that are or were connected, candidates that could not be connected, and
// unproven nodes that were refused, each with the reason.
func (n *Network) Nodes() []NodeStatus {
	all := []NodeStatus{{
		ID: n.self, Name: n.cfg.Name, State: StateSelf, Addr: n.Addr().String(), Protocol: protocol.String(),
		CertDaysLeft: daysUntil(n.cfg.Identity.NotAfter()), Authority: n.cfg.Identity.Cluster() != nil,
	}}
	if why := n.candidates.removed.Load(); why != nil {
		all[0].Why = *why
	}
	listed := map[community.NodeID]bool{n.self: true}
	sources := n.candidates.sources()
	for l := range n.links.all() {
		listed[l.peer.ID] = true
		via := ViaDialled
		if !l.addr.IsValid() {
			via = ViaReversed
		}
		all = append(all, NodeStatus{
			Via: via, Sources: sources[l.peer.ID],
			ID: l.peer.ID, Name: l.peer.Name, State: StateConnected, Addr: l.peer.Addr, RTT: l.rtt, Members: int(l.members.Load()),
			Protocol: l.protocol.String(), CertDaysLeft: daysUntil(l.theirs.end()), Since: l.since, Authority: l.authority.Load(), ClockAhead: l.clockAhead.Load(),
		})
	}
	all = append(all, n.candidates.list(listed)...)
	all = append(all, n.records.list(listed)...)
	slices.SortFunc(all[1:], func(a, b NodeStatus) int {
		return cmp.Or(cmp.Compare(a.State, b.State), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Addr, b.Addr))
	})
	return all
}

func daysUntil(t time.Time) int { return int(math.Floor(time.Until(t).Hours() / 24)) }
