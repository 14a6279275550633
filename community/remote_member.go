package community

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// loggedRefusals is how many refused members of one lease are logged. Further ones are only counted, so that a
// peer cannot fill the log.
const loggedRefusals = 8

// errTooMany refuses a member of a peer that has too many.
var errTooMany = errors.New("its node has more members than this one takes")

// checkedMember is a member that a peer announced, after the checks that need no lock. They run without the lock
// so that a peer that announces much does not delay the others.
type checkedMember struct {
	Member
	fault error // why no peer may announce it
	cut   int   // capabilities that are left out
}

// checkMember checks m and returns a copy of it with sorted slices. It leaves out the capabilities beyond
// maxCapabilities, the last ones by name.
func checkMember(m Member) checkedMember {
	for _, err := range []error{checkID(string(m.ID)), checkLabel("name", m.Name), checkMetadata(m.Metadata)} {
		if err != nil {
			return checkedMember{m, err, 0}
		}
	}
	var accepts, provides error
	m.Accepts, accepts = sortedNames("perception", m.Accepts, maxPerceptions)
	cut := max(0, len(m.Provides)-maxCapabilities)
	m.Provides, provides = sortedNames("capability", slices.Sorted(slices.Values(m.Provides))[:len(m.Provides)-cut], maxCapabilities)
	m.Metadata = maps.Clone(m.Metadata)
	return checkedMember{m, cmp.Or(accepts, provides), cut}
}

// checkCapabilities returns the capabilities of a peer to keep, and those to refuse. It keeps the first ones by
// name, as checkMember does.
func checkCapabilities(all []Capability) (kept map[string]Capability, faults []checkedMember) {
	kept = make(map[string]Capability, min(len(all), maxCapabilities))
	for _, p := range slices.SortedFunc(slices.Values(all), func(a, b Capability) int { return cmp.Compare(a.Name, b.Name) }) {
		err := checkCapability(p)
		if err == nil && len(kept) >= maxCapabilities {
			err = fmt.Errorf("a peer may have %d capabilities", maxCapabilities)
		}
		if err != nil {
			faults = append(faults, checkedMember{Member{Name: p.Name}, err, 0})
			continue
		}
		kept[p.Name] = p
	}
	return kept, faults
}

// addMember adds or updates a remote member and reports whether it did. If it refuses m, a known member stays as
// it was. The caller must hold roster.mu.
func (ns *remoteNodes) addMember(l *Lease, n *remoteNode, m checkedMember) bool {
	err := m.fault
	if err == nil {
		err = ns.checkAnnouncement(l.peer.ID, m.Member)
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

// describeLeftOut returns what part of n is over the limits, "" if nothing is. The caller must hold roster.mu, at
// least for reading.
func (ns *remoteNodes) describeLeftOut(n *remoteNode) string {
	var out []string
	if len(n.leftOut) > 0 {
		out = append(out, fmt.Sprintf("%d of its members (at most %d are taken of one node)", len(n.leftOut), maxPeerMembers))
	}
	if n.cut > 0 {
		out = append(out, fmt.Sprintf("%d of its capabilities (at most %d are taken of one node)", n.cut, maxCapabilities))
	}
	return strings.Join(out, " and ")
}

// LeftOut returns what part of a connected node is over this node's limits, "" if nothing is.
func (c *Community) LeftOut(node NodeID) string {
	c.roster.mu.RLock()
	defer c.roster.mu.RUnlock()
	if n := c.roster.nodes[node]; n != nil {
		return c.remote.describeLeftOut(n)
	}
	return ""
}

// checkAnnouncement returns an error unless peer may announce m: m must live on that peer, and its id must not
// belong to another member. The caller must hold roster.mu.
func (ns *remoteNodes) checkAnnouncement(peer NodeID, m Member) error {
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
		ns.removeMember(ns.roster.nodes[old.Node], m.ID, "the id belongs to another node")
		return nil
	}
	return errors.New("the id belongs to a member of another node")
}

// refuse counts and logs a refused member. The caller must hold roster.mu.
func (ns *remoteNodes) refuse(l *Lease, m Member, err error) {
	ns.refused.Add(1)
	if l.logged++; l.logged > loggedRefusals {
		return
	}
	ns.cfg.Logger.Warn("member refused", "node", l.peer.ID, "member", printable(string(m.ID)), "name", printable(m.Name), "err", err)
}

// sameDescription reports whether two members differ in nothing but their availability.
func sameDescription(a, b Member) bool {
	return a.Name == b.Name && slices.Equal(a.Accepts, b.Accepts) && slices.Equal(a.Provides, b.Provides) && maps.Equal(a.Metadata, b.Metadata)
}
