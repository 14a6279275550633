package agent

import (
	"slices"
	"sync"

	"symbio/agent/lending"
	"symbio/agent/team"
	"symbio/agent/tool/replicate"
	"symbio/community"
	"symbio/security/permission"
)

// permissions decide what one agent may do: its own rules, those of its parents and of its definition, and those of the
// agents that it works for. They last from the spawn of the agent to its end, over restarts. They are safe for concurrent
// use: all fields but requesters are constant once the agent runs.
type permissions struct {
	factory *Factory
	self    community.Member // set by instance.setSelf
	line    []*permissions   // of the parents on this node, the first one first, and these at the end
	lender  permission.Chain // to which the lease holds an agent that is lent to another node
	policy  func() permission.Policy
	memory  *permission.Memory
	keep    []string              // tools that the parent let it have; nil = all
	own     definitionConstraints // of its definition, set before the agent begins

	mu         sync.Mutex
	requesters requesters // those that it works for now; guarded by mu
}

// newPermissions returns the permissions of an agent that has no parent on this node.
func newPermissions(f *Factory, policy func() permission.Policy) *permissions {
	p := &permissions{factory: f, policy: policy, memory: new(permission.Memory)}
	p.line = []*permissions{p}
	return p
}

// newChild returns the permissions of a sub-agent that is left the tools in keep; nil = all.
func (p *permissions) newChild(keep []string) *permissions {
	child := newPermissions(p.factory, p.policy)
	child.keep, child.line = keep, append(slices.Clip(p.line), child)
	return child
}

// links returns the links that the agent itself has, in a new slice: those of its parents, then its own. Each is granted
// more beside what it is granted anyway.
func (p *permissions) links(more []permission.Granted) permission.Chain {
	chain := slices.Clone(p.line[0].lender)
	for _, agent := range p.line {
		chain = append(chain, permission.Link{
			Name: agent.self.Name, Policy: agent.policy(), Memory: agent.memory, Granted: func() []permission.Granted { return agent.granted(more) },
		})
		if policy := agent.own.policy; policy != nil {
			chain = append(chain, permission.Link{Name: agent.self.Name + "'s definition", Policy: *policy})
		}
		if agent.keep != nil {
			chain = append(chain, permission.Link{Name: agent.self.Name + "'s parent", Policy: keepOnly(agent.keep)})
		}
	}
	return chain
}

// granted returns the rules that were granted to the agent while it runs: more, those of Config.Granted, and those of its
// active skills.
func (p *permissions) granted(more []permission.Granted) []permission.Granted {
	all := more
	if f := p.factory.cfg.Granted; f != nil {
		all = slices.Concat(all, f())
	}
	if registry := p.factory.cfg.Skills; registry != nil {
		id := string(p.self.ID)
		all = slices.Concat(all, registry.Granted(id), registry.Reading(id))
	}
	return all
}

// chain returns the chain that every call of the agent is judged by: its links, those of the agents that it works for, and
// what its remote requesters are held to. more is granted to all of these agents, to see what would come of it.
func (p *permissions) chain(more ...permission.Granted) permission.Chain {
	chain := p.links(more)
	now := p.currentRequesters()
	for _, requester := range now.local {
		chain = append(chain, requester.links(more)...)
	}
	return append(chain, now.remoteConstraints...)
}

// keeps reports whether the agent's parent let it have a tool. An agent that may make sub-agents keeps the tools for them.
func (p *permissions) keeps(tool string) bool {
	return p.keep == nil || slices.Contains(p.keep, tool) || team.IsOwnTool(tool) && slices.Contains(p.keep, replicate.Name)
}

// lasting returns the rules that would allow a call from now on; none if nothing exact would. It tries them: where a
// guardrail or a definition asks in spite of them, they are not offered.
func (p *permissions) lasting(call permission.Call, plan *permission.Plan) []permission.Granted {
	more := call.Lasting(plan)
	if len(more) == 0 || p.factory.cfg.Granted == nil {
		return nil
	}
	chain := p.chain(more...)
	if chain.Judge(decisiveCall(chain, call)).Action != permission.Allow {
		return nil
	}
	return more
}

// remember keeps a person's answer to exactly this call, for the agent and for its parents, which were asked with it.
func (p *permissions) remember(call permission.Call, allow bool) {
	answer := permission.Deny
	if allow {
		answer = permission.Allow
	}
	for _, agent := range p.line {
		agent.memory.Remember(call, agent.policy(), answer)
	}
}

// guard implements tool.Guard. It judges each call by the agent's chain as it is at that moment.
type guard struct{ permissions *permissions }

// Judge returns the verdict on a call.
func (g guard) Judge(c permission.Call) permission.Verdict {
	if c.Within == nil { // it comes from no Set
		c.Within = g.permissions.guardrails()
	}
	chain, c := g.decisive(c)
	return chain.Judge(c)
}

// Explain returns how the verdict on a call comes about.
func (g guard) Explain(c permission.Call) permission.Explanation {
	chain, c := g.decisive(c)
	return chain.Explain(c)
}

// decisive returns the chain and the call by which a call is judged. For all tools but those for sub-agents that is the
// agent's chain, and the call itself.
func (g guard) decisive(c permission.Call) (permission.Chain, permission.Call) {
	chain := g.permissions.chain()
	if team.IsOwnTool(c.Tool) {
		chain = forOwnTools(chain)
	}
	return chain, decisiveCall(chain, c)
}

// decisiveCall returns the call that decides about a call: itself, unless it spawns an agent on another node.
func decisiveCall(chain permission.Chain, c permission.Call) permission.Call {
	if node := c.Args["node"]; c.Tool == replicate.Name && node != nil && node != "" {
		return lending.DecisiveCall(chain, c)
	}
	return c
}

// forOwnTools returns a chain by which an agent may do with its own sub-agents what no rule denies: it was allowed to make
// them, and the tools reach no other agents.
func forOwnTools(chain permission.Chain) permission.Chain {
	chain = slices.Clone(chain)
	for i, link := range chain {
		chain[i].Granted = func() (all []permission.Granted) {
			if link.Granted != nil {
				all = slices.Clone(link.Granted())
			}
			for _, name := range team.OwnTools() {
				if rule, err := permission.ParseRule(name); err == nil { // they are names of tools
					all = append(all, permission.Granted{Rule: rule, Source: "having made them"})
				}
			}
			return all
		}
	}
	return chain
}

// keepOnly returns a policy that allows the named tools and denies all others.
func keepOnly(names []string) permission.Policy {
	var p permission.Policy
	for _, name := range names {
		if rule, err := permission.ParseRule(name); err == nil { // names are of tools that exist
			p.Allow = append(p.Allow, rule)
		}
	}
	return p
}
