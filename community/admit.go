package community

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// loggedRefusals is how many refused members of one lease are logged; the others are only counted,
// so that a peer cannot fill the log.
const loggedRefusals = 8

// errCrowd refuses a member of a peer that has too many.
var errCrowd = fmt.Errorf("a peer may have %d members", maxMembers)

// announced is a member as a peer announced it, checked as far as that needs no lock: a peer that
// announces a lot must not hold up the others.
type announced struct {
	Member
	fault error // why it cannot be a member, whoever announces it
}

// checkMember returns m with what it says of itself copied and sorted.
func checkMember(m Member) announced {
	for _, err := range []error{checkID(string(m.ID)), checkLabel("name", m.Name), checkMetadata(m.Metadata)} {
		if err != nil {
			return announced{m, err}
		}
	}
	var accepts, provides error
	m.Accepts, accepts = sortedNames("perception", m.Accepts)
	m.Provides, provides = sortedNames("capability", m.Provides)
	m.Metadata = maps.Clone(m.Metadata)
	return announced{m, cmp.Or(accepts, provides)}
}

// checkCapabilities returns the capabilities that a peer may have, and what to refuse.
func checkCapabilities(all []Capability) (kept map[string]Capability, faults []announced) {
	kept = make(map[string]Capability, min(len(all), maxCapabilities))
	for _, p := range all {
		err := checkCapability(p)
		if err == nil && len(kept) >= maxCapabilities {
			err = fmt.Errorf("a peer may have %d capabilities", maxCapabilities)
		}
		if err != nil {
			faults = append(faults, announced{Member{Name: p.Name}, err})
			continue
		}
		kept[p.Name] = p
	}
	return kept, faults
}

// take makes m a member, if l's peer may announce it, and reports whether it did. A known member
// that is refused stays as it was. It needs c.mu.
func (c *Community) take(l *Lease, n *neighbour, m announced) bool {
	err := m.fault
	if err == nil {
		err = c.mayAnnounce(l.peer.ID, m.Member)
	}
	if err != nil {
		c.refuse(l, m.Member, err)
		return false
	}
	old, known := c.remote[m.ID]
	c.remote[m.ID] = m.Member
	n.members[m.ID] = struct{}{}
	if !known {
		c.publish(Change{Kind: Joined, Member: m.Member}, false)
		return true
	}
	if !sameWords(old, m.Member) {
		c.publish(Change{Kind: Updated, Member: m.Member}, false)
	}
	switch {
	case m.Available && !old.Available:
		c.publish(Change{Kind: BecameAvailable, Member: m.Member}, false)
	case old.Available && !m.Available:
		c.publish(Change{Kind: BecameUnavailable, Member: m.Member, Why: "its node says so"}, false)
	}
	return true
}

// mayAnnounce tells whether a peer may say that m lives there: it speaks for its own node, and takes
// no id that is somebody else's. It needs c.mu.
func (c *Community) mayAnnounce(peer NodeID, m Member) error {
	if m.Node != peer {
		return errors.New("it is said to live on another node than the one that announces it")
	}
	_, resident := c.residents[m.ID]
	if resident || m.ID == MemberID(c.cfg.Node) {
		return errors.New("the id belongs to this node")
	}
	old, known := c.remote[m.ID]
	if !known || old.Node == peer {
		return nil
	}
	if m.ID == MemberID(peer) {
		// A node's id is proven by its key: whoever took it as a member's id has to give it back.
		c.leave(c.nodes[old.Node], m.ID, "the id belongs to another node")
		return nil
	}
	return errors.New("the id belongs to a member of another node")
}

// refuse counts and logs what a peer may not announce. It needs c.mu.
func (c *Community) refuse(l *Lease, m Member, err error) {
	c.refused.Add(1)
	if l.logged++; l.logged > loggedRefusals {
		return
	}
	c.cfg.Logger.Warn("member refused", "node", l.peer.ID, "member", printable(string(m.ID)), "name", printable(m.Name), "err", err)
}

// sameWords tells whether two members say the same of themselves.
func sameWords(a, b Member) bool {
	return a.Name == b.Name && slices.Equal(a.Accepts, b.Accepts) && slices.Equal(a.Provides, b.Provides) && maps.Equal(a.Metadata, b.Metadata)
}
