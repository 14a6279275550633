package clusterinfo

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"symbio/community"
	statedir "symbio/internal/agent/node/state"
	symbiov1 "symbio/proto/symbio/v1"
)

const (
	// lateDays is up to how many days before its end a certificate counts as not renewed. It lasts 7 days and is renewed
	// after half of that.
	lateDays = 2
	// lateClock is how far a clock may be wrong. At 5 minutes certificates of the other node are refused.
	lateClock = time.Minute
)

// NodeHealth is a node of the cluster as the running node sees it.
type NodeHealth struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	State string `json:"state"` // as of a Node
	// Role and Labels are what the authority says of it; empty if not known.
	Role   string            `json:"role,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	// Via and Address say how it is reached; empty if it is not.
	Via     string `json:"via,omitempty"`
	Address string `json:"address,omitempty"`
	// Days are those for which its certificate is good; nil = not known.
	Days *int `json:"cert_days,omitempty"`
	// ClockAhead is how far its clock is ahead of this node's, in seconds, as it says; nil = not known.
	ClockAhead *float64 `json:"clock_ahead,omitempty"`
	// Version is that of its program, Protocol that of the protocol; empty if not known.
	Version   string `json:"version,omitempty"`
	Protocol  string `json:"protocol,omitempty"`
	Authority bool   `json:"authority"`
	Draining  bool   `json:"draining"`
	// why says why it is not connected.
	why string
}

// Problem is what is wrong, and what to do about it.
type Problem struct {
	// Node is the name of the node that it is about.
	Node string `json:"node"`
	Why  string `json:"why"`
	Fix  string `json:"fix"`
}

// examine adds the nodes of the cluster and what is wrong with them. live are the nodes of the running node; without one,
// liveErr is set, and that is the only problem that can be found besides those of this node's own certificate.
func (s *Status) examine(state statedir.Dir, live []*symbiov1.Node, liveErr error, grace time.Duration) error {
	bad := func(node, fix, why string, args ...any) {
		s.Problems = append(s.Problems, Problem{node, fmt.Sprintf(why, args...), fix})
	}
	if s.Overdue != "" {
		bad(s.Node, "start a machine with the authority, or make one reachable: symbio doctor", "%s", s.Overdue)
	}
	if s.Refused != "" {
		bad(s.Node, "symbio cluster leave, then join again with a new token", "%s", s.Refused)
	}
	if liveErr != nil {
		bad(s.Node, "symbio up", "it is not running, so nothing is known of the others")
		return nil
	}
	seen := map[string]*symbiov1.Node{}
	for _, n := range live {
		seen[n.GetId()] = n
	}
	all, err := Nodes(state, slices.DeleteFunc(slices.Clone(live), func(n *symbiov1.Node) bool { return n.GetId() == "" }), nil, grace)
	if err != nil {
		return err
	}
	names, held := map[string]int{}, s.Authority
	for _, n := range all {
		if n.State == Removed {
			continue
		}
		h := healthOf(n, seen[n.ID])
		s.Nodes = append(s.Nodes, h)
		if h.isHere() {
			names[h.Name]++
		}
		held = held || h.Authority && h.State == connected
		if h.ID != s.ID {
			h.examine(bad)
		}
	}
	for _, h := range s.Nodes {
		if h.isHere() && names[h.Name] > 1 {
			bad(h.Name, "give one of them another name: stop it, symbio cluster leave, and there symbio --node NAME cluster join", "%d nodes have this name; this one is %s", names[h.Name], h.ID)
		}
	}
	if !held {
		bad(s.Node, "start a machine that holds it; if all are lost: symbio cluster init on one, and join the others anew", "no machine with the authority can be reached: nobody is let in or renewed")
	}
	return nil
}

// healthOf merges what the records and the running node know of a node; live may be nil.
func healthOf(n Node, live *symbiov1.Node) NodeHealth {
	h := NodeHealth{ID: n.ID, Name: n.Name, State: n.State, Role: n.Role, Labels: n.Labels, Authority: n.Authority}
	if !n.Expires.IsZero() {
		h.Days = new(int(math.Floor(time.Until(n.Expires).Hours() / 24)))
	}
	if live == nil {
		return h
	}
	h.Via, h.Protocol, h.why, h.ClockAhead = live.GetVia(), live.GetProtocol(), live.GetWhy(), live.ClockAhead
	h.Version, h.Draining = live.GetLabels()["version"], live.GetLabels()[community.DrainingKey] != ""
	if h.isHere() {
		h.Days, h.Address = new(int(live.GetCertDays())), live.GetAddr()
	}
	return h
}

// isHere reports whether it is this node or connected to it.
func (h NodeHealth) isHere() bool { return h.State == connected || h.State == "self" }

// examine reports what is wrong with another node.
func (h NodeHealth) examine(bad func(node, fix, why string, args ...any)) {
	const start = "start it there: symbio up; if it is gone for good: symbio cluster remove "
	switch h.State {
	case connected:
		if h.Days != nil && *h.Days <= lateDays {
			bad(h.Name, "there: symbio doctor", "its certificate was to be renewed before; it is good for %d days", *h.Days)
		}
		if h.ClockAhead != nil && math.Abs(*h.ClockAhead) > lateClock.Seconds() {
			bad(h.Name, "set the clocks, with NTP; at 5 minutes certificates are refused", "its clock is %+.0f seconds ahead of this machine's", *h.ClockAhead)
		}
	case "refused", "incompatible":
		bad(h.Name, "symbio doctor on both machines", "it is %s: %s", h.State, cmp.Or(h.why, "it does not say why"))
	case "left", Unknown:
	default:
		why := cmp.Or(h.why, "it has not been seen")
		if h.Days != nil && *h.Days < 0 {
			why += ", and its certificate has ended"
		}
		bad(h.Name, start+h.ID, "it cannot be reached: %s", why)
	}
}
