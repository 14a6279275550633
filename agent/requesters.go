package agent

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/agent/tool/peer"
	"symbio/security/permission"
)

// requesters are the agents and nodes that an agent works for: the sender of its task, the sender's
// requesters, and so on. Their permissions judge the agent's calls, too, so that an agent cannot
// have another one do a forbidden thing for it (confused deputy; see design note 0007).
type requesters struct {
	steerers          []string         // the addresses of those that did not give the task, but spoke in the middle of it
	local             []*permissions   // agents of this node, without the agent itself and its parents
	remote            []string         // names of the requesters on other nodes, for people; see remoteRequesters
	remoteConstraints permission.Chain // the constraints that other nodes sent with the task; they only restrict
}

// currentRequesters returns the requesters of the running task. The slices are never changed, only
// replaced.
func (p *permissions) currentRequesters() requesters {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requesters
}

// setRequesters replaces the requesters by those with these addresses; nil = none. constraints are
// those that the remote requesters' nodes sent. Which signals other nodes may send at all was
// decided before, by the node's authorize rules.
func (p *permissions) setRequesters(addresses []string, constraints permission.Chain) {
	next := requesters{local: p.localRequesters(addresses), remote: p.remoteRequesters(addresses), remoteConstraints: constraints}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requesters = next
}

// addRequesters adds requesters until the next setRequesters, for a text that reaches the agent in
// the middle of a task.
func (p *permissions) addRequesters(addresses []string, constraints permission.Chain) {
	local, remote := p.localRequesters(addresses), p.remoteRequesters(addresses)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requesters = requesters{
		steerers:          slices.Concat(p.requesters.steerers, addresses),
		local:             slices.Concat(p.requesters.local, local),
		remote:            slices.Concat(p.requesters.remote, remote),
		remoteConstraints: slices.Concat(p.requesters.remoteConstraints, constraints),
	}
}

// chainOf returns the requesters of the calls in ctx: the task's, the agent itself, and who has steered it since.
func (p *permissions) chainOf(ctx context.Context, task []string) []string {
	chain := append(slices.Clip(task), p.address)
	for _, address := range p.at(ctx).currentRequesters().steerers {
		if !slices.Contains(chain, address) {
			chain = append(chain, address)
		}
	}
	return chain
}

// outsideRequester names the node or agent outside of the agent's tree for which it does a task; "" if
// a person or the agent's own tree gave it.
func (p *permissions) outsideRequester(s community.Signal) string {
	for _, address := range s.Requester {
		if r := p.factory.instances.byAddress(address); r == nil || !slices.Contains(p.lineage, r.permissions) {
			return append(p.remoteRequesters(s.Requester), address)[0] // the caller comes first
		}
	}
	return ""
}

// isFromOwnTree reports whether the agent itself or a descendant sent a task. Such a task uses what
// is left of the budget: otherwise sub-agents could renew it without end.
func (p *permissions) isFromOwnTree(requesters []string) bool {
	return slices.ContainsFunc(requesters, func(address string) bool {
		r := p.factory.instances.byAddress(address)
		return r != nil && slices.Contains(r.permissions.lineage, p)
	})
}

// localRequesters returns the permissions of requesters on this node, without duplicates, and
// without the agent itself and its parents: their links are in the chain already.
func (p *permissions) localRequesters(addresses []string) (local []*permissions) {
	for _, address := range addresses {
		requester := p.factory.instances.byAddress(address)
		if requester == nil || slices.Contains(local, requester.permissions) || slices.Contains(p.lineage, requester.permissions) {
			continue
		}
		local = append(local, requester.permissions)
	}
	return local
}

// remoteRequesters names the requesters on other nodes, for people, as NODE or NODE/AGENT. The
// calling node comes first: its connection proves its identity. The others are that node's claim;
// they follow nearest first and are marked as claimed.
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

// claimed is appended to names that another node claims and nothing proves.
const claimed = " (claimed)"

// onBehalfOf names the agents and nodes that the agent acts for, the nearest first: its parents,
// then its requesters.
func (p *permissions) onBehalfOf() (names []string) {
	for _, parent := range slices.Backward(p.lineage[:len(p.lineage)-1]) {
		names = append(names, parent.self.Name)
	}
	now := p.currentRequesters()
	for _, requester := range now.local {
		names = append(names, requester.self.Name)
	}
	return append(names, now.remote...)
}

// encodeConstraints encodes the constraints that go with a signal of the agent (Signal.OnBehalf).
// Another node gets the whole chain, and the guardrails of the agent and of ctx. An agent of this node gets only the constraints of remote
// requesters, because it finds the local ones by address, and gets ctx.
func (p *permissions) encodeConstraints(ctx context.Context, toOtherNode bool) ([]byte, error) {
	p = p.at(ctx)
	now := p.currentRequesters()
	ended := func(r *permissions) bool { return p.factory.instances.byAddress(peer.Address(r.self)) == nil }
	if toOtherNode || slices.ContainsFunc(now.local, ended) {
		inner, _ := tool.Guardrails(ctx)
		return permission.EncodeConstraints(p.chain(), slices.Concat(p.guardrails(), inner)...)
	}
	return permission.EncodeConstraints(now.remoteConstraints)
}

// fixedKey is the key of a context in which the requesters of an agent are fixed.
type fixedKey struct{}

// fixedPermissions are permissions of an agent as they were.
type fixedPermissions struct{ of, as *permissions }

// fix returns a context in which the agent acts for its present requesters, for a task that may begin
// when the agent works for others, or for none.
func (p *permissions) fix(ctx context.Context) context.Context {
	as := &permissions{
		factory: p.factory, self: p.self, address: p.address, dir: p.dir, lineage: p.lineage, policy: p.policy,
		keptTools: p.keptTools, own: p.own,
		requesters: p.at(ctx).currentRequesters(),
	}
	return context.WithValue(ctx, fixedKey{}, fixedPermissions{p, as})
}

// at returns the permissions with the requesters of ctx: the ones of fix, else the present ones.
func (p *permissions) at(ctx context.Context) *permissions {
	if fixed, ok := ctx.Value(fixedKey{}).(fixedPermissions); ok && fixed.of == p {
		return fixed.as
	}
	return p
}
