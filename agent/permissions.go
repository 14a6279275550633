package agent

import (
	"slices"
	"sync"

	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/agent/lending"
	"symbio/internal/agent/team"
	"symbio/internal/agent/tool/plan"
	"symbio/security/permission"
)

// permissions decide what one agent may do, by the rules of the agent, its parents, its definition,
// and the agents whose task it works on. They last from the spawn to the end of the agent, over
// restarts. They are safe for concurrent use: all fields but requesters are constant once the agent
// runs.
type permissions struct {
	factory   *Factory
	self      community.Member // set by instance.setSelf
	address   string           // peer.Address of self, its name in Signal.Requester; set by instance.setSelf
	dir       string           // where the agent works
	lineage   []*permissions   // the permissions of the parents on this node, outermost first; the agent's own are last
	lease     *lending.Lease   // set if the agent is lent to another node, whose constraints the lease has
	policy    func() permission.Policy
	memory    permission.Memory     // the answers of people; copies of fix find it by lineage
	keptTools []string              // the tools that the parent left to it; nil = all
	own       definitionConstraints // the constraints of the definition, set before the agent starts

	mu         sync.Mutex
	requesters requesters        // of the running task; guarded by mu
	skillDirs  map[string]string // of the borrower's skills, by Grant.Source, if the agent is lent; guarded by mu
	recent     []permission.Call // the latest calls of the agent and its sub-agents, if it has no parent; guarded by mu

	declined sync.Map // keys of skills that a person declined, if the agent has no parent: a person is not asked twice
}

// newPermissions returns the permissions of an agent that has no parent on this node.
func newPermissions(f *Factory, policy func() permission.Policy, dir string) *permissions {
	p := &permissions{factory: f, dir: dir, policy: policy}
	p.lineage = []*permissions{p}
	return p
}

// borrower returns the lease of the agent or of its parent that is lent to another node; nil = it works for this one.
func (p *permissions) borrower() *lending.Lease { return p.lineage[0].lease }

// newChild returns the permissions of a sub-agent, which may use the tools in keep; nil = all tools.
func (p *permissions) newChild(keep []string) *permissions {
	child := newPermissions(p.factory, p.policy, p.dir)
	child.keptTools, child.lineage = keep, append(slices.Clip(p.lineage), child)
	return child
}

// links returns the agent's own links of the chain in a new slice: its parents', then its own. more
// is added to the rules that each link has been granted.
func (p *permissions) links(more []permission.Grant) permission.Chain {
	var chain permission.Chain
	if lease := p.borrower(); lease != nil {
		chain = p.claimed(lease.Constraints())
	}
	for _, agent := range p.lineage {
		chain = append(chain, permission.Link{
			Name: agent.self.Name, Policy: agent.policy(), Memory: &agent.memory, Granted: func() []permission.Grant { return agent.granted(more) },
		})
		if policy := agent.own.policy; policy != nil {
			chain = append(chain, permission.Link{Name: agent.self.Name + "'s definition", Policy: *policy})
		}
		if agent.keptTools != nil {
			chain = append(chain, permission.Link{Name: agent.self.Name + "'s parent", Policy: keepOnly(agent.keptTools)})
		}
	}
	return chain
}

// granted returns the rules that the agent was granted while it runs: more, Config.Approvals, and
// the rules of its active skills.
func (p *permissions) granted(more []permission.Grant) []permission.Grant {
	all := slices.Clip(more)
	if kept := p.factory.cfg.Approvals; kept != nil {
		for _, g := range kept.Granted(string(p.lineage[0].self.ID)) {
			if g.Dir == "" || p.borrower() == nil { // what a person allows for a directory is not for another node's task
				all = append(all, g)
			}
		}
	}
	if registry := p.factory.cfg.Skills; registry != nil {
		id := string(p.self.ID)
		all = slices.Concat(all, registry.Granted(id), registry.Reading(id))
	}
	return all
}

// chain returns the chain that judges every call of the agent: its own links, its requesters'
// links, and the constraints of remote requesters. more is granted to all of these agents, to try
// what a rule would change.
func (p *permissions) chain(more ...permission.Grant) permission.Chain {
	chain := p.links(more)
	now := p.currentRequesters()
	for _, requester := range now.local {
		chain = append(chain, requester.links(more)...)
	}
	return append(chain, p.claimed(now.remoteConstraints)...)
}

// claimed returns constraints of another node as they hold here: of the files of a skill they allow
// those that the skill has on this node, if the agent, or the parent that is lent, has it by its
// borrower.
func (p *permissions) claimed(c permission.Chain) permission.Chain {
	root := p.lineage[0]
	root.mu.Lock()
	dirs := root.skillDirs
	root.mu.Unlock()
	return c.WithSkillDirs(dirs)
}

// keepsTool reports whether the agent's parent left it a tool. An agent that keeps replicate_agent
// keeps the tools for sub-agents, too.
func (p *permissions) keepsTool(tool string) bool {
	return p.keptTools == nil || tool == StepTool || team.HasTool(tool, func(name string) bool { return slices.Contains(p.keptTools, name) })
}

// lastingRules returns the rules that would allow a call from now on; none if no exact rule would.
// It tries them on the chain: rules that a guardrail or a definition overrules are not offered to
// the person.
func (p *permissions) lastingRules(call permission.Call, plan *permission.Plan) []permission.Grant {
	more := call.Lasting(plan)
	if len(more) == 0 || p.factory.cfg.Approvals == nil {
		return nil
	}
	if chain := p.chain(more...); chain.Judge(lending.DecisiveCall(chain, call)).Action != permission.Allow {
		return nil
	}
	return more
}

// The limits of offers: how many calls are remembered to show what an offer would have covered, how many of them a person
// is shown, and how many bytes one may have.
const maxRecent, maxCovers, maxRecentArgs = 64, 3, 4 << 10

// called remembers a call of the agent for offers to come.
func (p *permissions) called(c permission.Call) {
	if c = c.Subject(); c.Tool == "" || len(readable(c.Args)) > maxRecentArgs {
		return
	}
	root := p.lineage[0]
	root.mu.Lock()
	defer root.mu.Unlock()
	root.recent = append(root.recent[max(0, len(root.recent)-maxRecent+1):], c)
}

// offers returns what a person can allow with a call that is asked about, with earlier calls of the session that each offer
// would have covered, the latest first. There is none for an agent that is lent, works for others, or has a directory of its
// own: an answer is for the agent without a parent, its sub-agents, and the directory of the node.
func (p *permissions) offers(d tool.Decision) []permission.Offer {
	root, f := p.lineage[0], p.factory.cfg
	if f.Approvals == nil || p.borrower() != nil || d.Judged.Dir != f.Dir || d.Verdict.Stage != permission.StageDefault ||
		len(p.currentRequesters().local) > 0 {
		return nil
	}
	all := d.Judged.Offers(d.Verdict.Plan, p.chain)
	root.mu.Lock()
	recent := slices.Clone(root.recent)
	root.mu.Unlock()
	for i := range all {
		o := &all[i]
		granted, _ := permission.Grants(o.Rules, f.Dir, "offer") // they have been tried
		chain, shown := p.chain(granted...), d.Judged.String()
		for _, c := range slices.Backward(recent) {
			if text := c.String(); len(o.Covers) < maxCovers && text != shown && !slices.Contains(o.Covers, text) && chain.Covers(*o, c) {
				o.Covers = append(o.Covers, text)
			}
		}
	}
	return all
}

// remember stores a person's answer to exactly this call, for the agent and its parents: the
// question was theirs, too.
func (p *permissions) remember(call permission.Call, allow bool) {
	answer := permission.Deny
	if allow {
		answer = permission.Allow
	}
	for _, agent := range p.lineage {
		agent.memory.Remember(call, agent.policy(), answer)
	}
}

// guard implements tool.Guard. It judges each call by the agent's chain as it is at that moment.
type guard struct{ permissions *permissions }

// Judge returns the verdict on a call.
func (g guard) Judge(c permission.Call) permission.Verdict {
	if c.Within == nil { // the call does not come from a tool.Set, which sets Within
		c.Within = g.permissions.guardrails()
	}
	chain, c := g.decisive(c)
	return chain.Judge(c)
}

// Explain returns how each link judges a call, for people.
func (g guard) Explain(c permission.Call) permission.Explanation {
	chain, c := g.decisive(c)
	return chain.Explain(c)
}

// decisive returns the chain and the call that are judged: the agent's chain and the call itself,
// except for tools that need no permission (grantTools).
func (g guard) decisive(c permission.Call) (permission.Chain, permission.Call) {
	chain := g.permissions.chain()
	switch {
	case team.IsOwnTool(c.Tool):
		chain = grantTools(chain, "the node, because the agent made them", team.OwnTools()...)
	case c.Tool == StepTool:
		chain = grantTools(chain, "the node, because the program has done it already", StepTool)
	case c.Tool == plan.Name && !slices.ContainsFunc(g.permissions.factory.cfg.Tools, func(t tool.Tool) bool { return t.Spec().Name == plan.Name }):
		chain = grantTools(chain, "the node, because it touches nothing", plan.Name)
	}
	return chain, lending.DecisiveCall(chain, c)
}

// grantTools returns a chain that also allows the named tools, unless a rule denies them: the tools
// for sub-agents, because the agent was allowed to spawn them and reaches no other agents with these
// tools, and Plan, which has no effect. A person need not be asked about those.
func grantTools(chain permission.Chain, source string, names ...string) permission.Chain {
	chain = slices.Clone(chain)
	for i, link := range chain {
		chain[i].Granted = func() (all []permission.Grant) {
			if link.Granted != nil {
				all = slices.Clone(link.Granted())
			}
			for _, name := range names {
				if rule, err := permission.ParseRule(name); err == nil { // they are names of tools
					all = append(all, permission.Grant{Rule: rule, Source: source})
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
