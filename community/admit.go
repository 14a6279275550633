package community

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// loggedRefusals is how many refused members of one lease are logged; the others are only counted,
// so that a peer cannot fill the log.
const loggedRefusals = 8

// errTooMany refuses a member of a peer that has too many.
var errTooMany = errors.New("its node has more members than this one takes")

// announced is a member as a peer announced it, checked as far as that needs no lock: a peer that
// announces a lot must not hold up the others.
type announced struct {
	Member
	fault error // why it cannot be a member, whoever announces it
	cut   int   // capabilities that are left out
}

// checkMember returns m with what it says of itself copied and sorted. Of the capabilities beyond most, those
// that come last by name are left out.
func checkMember(m Member, most int) announced {
	for _, err := range []error{checkID(string(m.ID)), checkLabel("name", m.Name), checkMetadata(m.Metadata)} {
		if err != nil {
			return announced{m, err, 0}
		}
	}
	var accepts, provides error
	m.Accepts, accepts = sortedNames("perception", m.Accepts, maxPerceptions)
	cut := max(0, len(m.Provides)-most)
	m.Provides, provides = sortedNames("capability", slices.Sorted(slices.Values(m.Provides))[:len(m.Provides)-cut], most)
	m.Metadata = maps.Clone(m.Metadata)
	return announced{m, cmp.Or(accepts, provides), cut}
}

// checkCapabilities returns the capabilities that a peer may have, and what to refuse. It keeps the first by name,
// as checkMember does.
func checkCapabilities(all []Capability, most int) (kept map[string]Capability, faults []announced) {
	kept = make(map[string]Capability, min(len(all), most))
	for _, p := range slices.SortedFunc(slices.Values(all), func(a, b Capability) int { return cmp.Compare(a.Name, b.Name) }) {
		err := checkCapability(p)
		if err == nil && len(kept) >= most {
			err = fmt.Errorf("a peer may have %d capabilities", most)
		}
		if err != nil {
			faults = append(faults, announced{Member{Name: p.Name}, err, 0})
			continue
		}
		kept[p.Name] = p
	}
	return kept, faults
}

// admit makes m a member, if l's peer may announce it, and reports whether it did. A known member
// that is refused stays as it was. It needs roster.mu.
func (ns *remoteNodes) admit(l *Lease, n *remoteNode, m announced) bool {
	err := m.fault
	if err == nil {
		err = ns.mayAnnounce(l.peer.ID, m.Member)
	}
	if err != nil {
		if err == errTooMany {
			n.leftOut[m.ID] = struct{}{}
		}
		ns.refuse(l, m.Member, err)
		return false
	}
	if m.ID == MemberID(l.peer.ID) {
		n.cut = m.cut
	}
	delete(n.leftOut, m.ID)
	old, known := ns.roster.remote[m.ID]
	ns.roster.remote[m.ID] = m.Member
	n.members[m.ID] = struct{}{}
	if !known {
		ns.roster.publish(Change{Kind: Joined, Member: m.Member}, false)
		return true
	}
	if !sameDescription(old, m.Member) {
		ns.roster.publish(Change{Kind: Updated, Member: m.Member}, false)
	}
	switch {
	case m.Available && !old.Available:
		ns.roster.publish(Change{Kind: BecameAvailable, Member: m.Member}, false)
	case old.Available && !m.Available:
		ns.roster.publish(Change{Kind: BecameUnavailable, Member: m.Member, Why: "its node says so"}, false)
	}
	return true
}

// describeLeftOut says what of n is over the limits; "" = nothing. It needs roster.mu, or its read lock.
func (ns *remoteNodes) describeLeftOut(n *remoteNode) string {
	var out []string
	if len(n.leftOut) > 0 {
		out = append(out, fmt.Sprintf("%d of its members (limits.peer_members is %d here)", len(n.leftOut), ns.cfg.MaxPeerMembers))
	}
	if n.cut > 0 {
		out = append(out, fmt.Sprintf("%d of its capabilities (limits.capabilities is %d here)", n.cut, ns.cfg.MaxCapabilities))
	}
	return strings.Join(out, " and ")
}

// LeftOut says what of a connected node is over this node's limits; "" = nothing.
func (ns *remoteNodes) LeftOut(node NodeID) string {
	ns.roster.mu.RLock()
	defer ns.roster.mu.RUnlock()
	if n := ns.roster.nodes[node]; n != nil {
		return ns.describeLeftOut(n)
	}
	return ""
}

// mayAnnounce tells whether a peer may say that m lives there: it speaks for its own node, and takes
// no id that belongs to another member. It needs roster.mu.
func (ns *remoteNodes) mayAnnounce(peer NodeID, m Member) error {
	if m.Node != peer {
		return errors.New("it is said to live on another node than the one that announces it")
	}
	_, local := ns.roster.agents[m.ID]
	if local || m.ID == MemberID(ns.cfg.Node) {
		return errors.New("the id belongs to this node")
	}
	old, known := ns.roster.remote[m.ID]
	if !known || old.Node == peer {
		return nil
	}
	if m.ID == MemberID(peer) {
		// A node's id is proven by its key: a node that used it for a member has to give it up.
		ns.leave(ns.roster.nodes[old.Node], m.ID, "the id belongs to another node")
		return nil
	}
	return errors.New("the id belongs to a member of another node")
}

// refuse counts and logs a member that a peer may not announce. It needs roster.mu.
func (ns *remoteNodes) refuse(l *Lease, m Member, err error) {
	ns.refused.Add(1)
	if l.logged++; l.logged > loggedRefusals {
		return
	}
	ns.cfg.Logger.Warn("member refused", "node", l.peer.ID, "member", printable(string(m.ID)), "name", printable(m.Name), "err", err)
}

// sameDescription reports whether two members say the same of themselves.
func sameDescription(a, b Member) bool {
	return a.Name == b.Name && slices.Equal(a.Accepts, b.Accepts) && slices.Equal(a.Provides, b.Provides) && maps.Equal(a.Metadata, b.Metadata)
}
