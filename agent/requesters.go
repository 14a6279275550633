package agent

import (
	"cmp"
	"slices"
	"strings"

	"symbio/community"
	"symbio/security/permission"
)

// requesters are those that an agent works for: all that asked for its task, and all that had asked these. What the agent
// does is judged by their permissions, too, so that an agent cannot have another do what it may not do itself
// (security.md 7.3).
type requesters struct {
	local             []*permissions   // of agents of this node whose permissions are not the agent's own already
	remote            []string         // names of the others, for people; see remoteRequesters
	remoteConstraints permission.Chain // what the others are held to, as their nodes say
}

// currentRequesters returns those that the agent works for now.
func (p *permissions) currentRequesters() requesters {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requesters
}

// setRequesters sets by their addresses those that the agent works for; with nil there are none. Config.Authorize
// decides what other nodes may ask for; constraints are what their nodes say that the remote requesters are held to.
func (p *permissions) setRequesters(addresses []string, constraints permission.Chain) {
	next := requesters{local: p.localRequesters(addresses), remote: p.remoteRequesters(addresses), remoteConstraints: constraints}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requesters = next
}

// addRequesters has the agent work for these as well, until the next setRequesters.
func (p *permissions) addRequesters(addresses []string, constraints permission.Chain) {
	local, remote := p.localRequesters(addresses), p.remoteRequesters(addresses)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requesters = requesters{
		local:             slices.Concat(p.requesters.local, local),
		remote:            slices.Concat(p.requesters.remote, remote),
		remoteConstraints: slices.Concat(p.requesters.remoteConstraints, constraints),
	}
}

// localRequesters returns the permissions of the requesting agents of this node, without those that are part of the agent's
// own links: itself and its parents.
func (p *permissions) localRequesters(addresses []string) (local []*permissions) {
	for _, address := range addresses {
		requester := p.factory.instances.byAddress(address)
		if requester == nil || slices.Contains(local, requester.permissions) || slices.Contains(p.line, requester.permissions) {
			continue
		}
		local = append(local, requester.permissions)
	}
	return local
}

// remoteRequesters names the requesters that are not of this node, for people: a node, or NODE/AGENT. The calling node, the
// first of the requesters, comes first: its connection proves it. All others are what that node says, the nearest first,
// and marked as claimed.
func (p *permissions) remoteRequesters(addresses []string) (names []string) {
	var members map[community.MemberID]community.Member
	name := func(id string) string {
		if members == nil {
			members = map[community.MemberID]community.Member{}
			for _, m := range p.factory.cfg.Community.Members() {
				members[m.ID] = m
			}
		}
		return cmp.Or(members[community.MemberID(id)].Name, id)
	}
	for i, address := range slices.Backward(addresses) {
		node, agent, isAgent := strings.Cut(address, "/")
		switch {
		case node == string(p.self.Node):
		case isAgent:
			names = append(names, name(node)+"/"+name(agent)+claimed)
		case i == 0:
			names = slices.Insert(names, 0, name(node))
		default:
			names = append(names, name(node)+claimed)
		}
	}
	return names
}

// claimed marks a name in a chain that another node gives.
const claimed = " (claimed)"

// onBehalfOf names those that the agent acts for, the nearest first: its parents, then its requesters.
func (p *permissions) onBehalfOf() (names []string) {
	for _, parent := range slices.Backward(p.line[:len(p.line)-1]) {
		names = append(names, parent.self.Name)
	}
	now := p.currentRequesters()
	for _, requester := range now.local {
		names = append(names, requester.self.Name)
	}
	return append(names, now.remote...)
}

// encodeConstraints returns what goes with a call of the agent: what it and its requesters are held to. The agents of this node know
// each other, so that a call to one of them carries only what other nodes said.
func (p *permissions) encodeConstraints(toOtherNode bool) ([]byte, error) {
	if toOtherNode {
		return permission.WriteBehalf(p.chain())
	}
	return permission.WriteBehalf(p.currentRequesters().remoteConstraints)
}
