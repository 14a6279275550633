package grpcpeer

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"symbio/community"
)

// maxRecords is how many nodes that are not connected any more, and strangers that were refused, are
// remembered for people to see.
const maxRecords = 256

// memory is for how long.
const memory = time.Hour

// quiet is how long the same refusal of the same stranger is not told again.
const quiet = time.Minute

// records remembers what has been, and tells of what happens.
type records struct {
	report func(Event)
	log    *slog.Logger

	mu sync.Mutex
	of map[string]*record // guarded by mu
}

type record struct {
	status NodeStatus
	told   time.Time
}

func (r *records) tell(e Event) {
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

// keep remembers a node that is not connected any more.
func (r *records) keep(s NodeStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put("node "+string(s.ID), s)
}

// put stores a record, in place of the oldest when there are too many. The caller holds r.mu.
func (r *records) put(key string, s NodeStatus) *record {
	if r.of[key] == nil && len(r.of) >= maxRecords {
		oldest := ""
		for k, one := range r.of {
			if oldest == "" || one.status.Since.Before(r.of[oldest].status.Since) {
				oldest = k
			}
		}
		delete(r.of, oldest)
	}
	one := &record{status: s}
	if was := r.of[key]; was != nil && was.status.Why == s.Why {
		one.told = was.told
	}
	r.of[key] = one
	return one
}

// stranger remembers a connection that came in and was refused, and tells of it unless that was just
// done: who knocks a thousand times fills no log.
func (r *records) stranger(host, why string) {
	r.note("stranger "+host, Event{Kind: Refused, Addr: host, Why: why})
}

// note is stranger for any event; key says which are the same.
func (r *records) note(key string, e Event) {
	now := time.Now()
	r.mu.Lock()
	one := r.put(key, NodeStatus{State: StateRefused, Addr: e.Addr, Why: e.Why, Since: now})
	again := now.Sub(one.told) < quiet
	if !again {
		one.told = now
	}
	r.mu.Unlock()
	if !again {
		r.tell(e)
	}
}

func (n *Network) turnedAway(from net.Addr, why error) {
	var of crowded
	errors.As(why, &of)
	n.tally.add(reasonOf(why), of.node)
	host := from.String()
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h // each try has a port of its own
	}
	n.records.stranger(host, fmt.Sprintf("it connected here and was refused: %v", why))
}

// Nodes returns this node, the nodes that are or were connected, candidates that could not be
// connected, and strangers who were refused, each with the reason.
func (n *Network) Nodes() []NodeStatus {
	all := []NodeStatus{{
		ID: n.self, Name: n.cfg.Name, State: StateSelf, Addr: n.Addr().String(), Protocol: n.cfg.Protocol.String(),
		CertDaysLeft: daysUntil(n.cfg.Identity.NotAfter()), Authority: n.cfg.Identity.Cluster() != nil,
	}}
	listed := map[community.NodeID]bool{n.self: true}
	sources := n.sourcesOf()
	n.links.Range(func(_, v any) bool {
		l := v.(*link)
		listed[l.peer.ID] = true
		via := ViaDialled
		if !l.addr.IsValid() {
			via = ViaReversed
		}
		all = append(all, NodeStatus{
			Via: via, Sources: sources[l.peer.ID],
			ID: l.peer.ID, Name: l.peer.Name, State: StateConnected, Addr: l.peer.Addr, RTT: l.rtt, Members: int(l.members.Load()),
			Protocol: l.protocol.String(), CertDaysLeft: daysUntil(l.theirs.end()), Since: l.since, Authority: l.authority.Load(),
		})
		return true
	})
	n.mu.Lock()
	for _, k := range n.candidates {
		// A candidate whose node is listed already is that node at another address.
		if listed[k.proven] || listed[k.claimed] || k.own {
			continue
		}
		if k.status.ID != "" {
			listed[k.status.ID] = true
		}
		status := k.status
		status.Sources = k.sources
		all = append(all, status)
	}
	n.mu.Unlock()
	n.records.mu.Lock()
	for _, r := range n.records.of {
		if time.Since(r.status.Since) < memory && (r.status.ID == "" || !listed[r.status.ID]) {
			all = append(all, r.status)
		}
	}
	n.records.mu.Unlock()
	slices.SortFunc(all[1:], func(a, b NodeStatus) int {
		return cmp.Or(cmp.Compare(a.State, b.State), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Addr, b.Addr))
	})
	return all
}

// sourcesOf says which discovery sources see a node, under whatever key.
func (n *Network) sourcesOf() map[community.NodeID][]string {
	out := map[community.NodeID][]string{}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, k := range n.candidates {
		id := cmp.Or(k.proven, k.claimed)
		for _, s := range k.sources {
			if id != "" && !k.gone && !slices.Contains(out[id], s) {
				out[id] = append(out[id], s)
			}
		}
	}
	for _, all := range out {
		slices.Sort(all)
	}
	return out
}

func daysUntil(t time.Time) int { return max(0, int(time.Until(t)/(24*time.Hour))) }
