package agent

import (
	"context"
	"fmt"
	"slices"

	"symbio/agent/definition"
	"symbio/agent/tool"
	"symbio/agent/tool/security"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

// definitionConstraints are the restrictions of a definition on the calls of its agents. They are
// read once, when the agent is spawned, so that an edited file does not change a running agent.
type definitionConstraints struct {
	policy    *permission.Policy                  // nil = none
	guardrail *permission.Guardrail               // nil = none
	sandbox   func(sandbox.Policy) sandbox.Policy // restricts what commands may do; nil = no restriction
}

// ownConstraints returns the constraints of an instance: of its definition, of its order, and of the agent that
// borrows it. The error says which of them cannot be enforced in its workspace.
func ownConstraints(i *instance) (definitionConstraints, error) {
	c, err := constraintsOf(i.order.Definition, i.order.security, i.order.Workspace.Dir)
	if lease := i.permissions.lease; err != nil || lease == nil || lease.Sandbox == nil {
		return c, err
	}
	borrowers, err := i.permissions.lease.Sandbox.Constraint(i.order.Workspace.Dir)
	inner := c.sandbox
	c.sandbox = func(p sandbox.Policy) sandbox.Policy {
		if p = borrowers(p); inner != nil {
			p = inner(p)
		}
		return p
	}
	return c, err
}

// portableSandbox describes for another node what commands of the agent are held to in ctx: by the
// definitions that constrain it, and by the guardrails of ctx. It returns nil if that is nothing, and
// an error if another node cannot hold commands to it.
func (p *permissions) portableSandbox(ctx context.Context) (*sandbox.Portable, error) {
	_, held := tool.Guardrails(ctx)
	p = p.at(ctx)
	if _, narrower := p.constrainSandbox(sandbox.Policy{}); !narrower && held == nil {
		return nil, nil
	}
	d, err := sandbox.Describe(func(s sandbox.Policy) sandbox.Policy {
		if s, _ = p.constrainSandbox(s); held != nil {
			s = sandbox.Meet(*held, s)
		}
		return s
	}, p.dir)
	if err != nil {
		return nil, fmt.Errorf("another node cannot hold its commands to your sandbox limits: %w", err)
	}
	return &d, nil
}

// constraintsOf reads the constraints of a definition, and of the sandbox of s, which may be
// nil. The error says which of them cannot be enforced in the working directory dir, such as a
// writable directory that does not exist.
func constraintsOf(d definition.Definition, s *security.Config, dir string) (c definitionConstraints, err error) {
	if policy, ok := d.Policy(); ok {
		c.policy = &policy
	}
	if !d.Guardrail.IsZero() {
		g, err := d.Guardrail.Guardrail()
		if err != nil {
			return definitionConstraints{}, err
		}
		rules := g.Rules()
		c.guardrail = &rules
	}
	if !d.Sandbox.IsZero() {
		if c.sandbox, err = d.Sandbox.Constraint(dir); err != nil {
			return definitionConstraints{}, err
		}
	}
	if s == nil || s.Off() {
		return c, nil
	}
	only, err := s.SandboxPolicy(dir)
	inner := c.sandbox
	c.sandbox = func(p sandbox.Policy) sandbox.Policy {
		with := only
		if s.Policy == nil {
			with.Env, with.Files.Show, with.Files.Sockets = p.Env, p.Files.Show, p.Files.Sockets // of these a preset says nothing
		}
		if p = sandbox.Meet(p, with); inner != nil {
			p = inner(p)
		}
		return p
	}
	return c, err
}

// constraining returns the permissions of all agents whose definitions constrain this agent: its
// current requesters and the agent itself, each after its parents. The caller must not change the
// slice.
func (p *permissions) constraining() []*permissions {
	all := p.lineage
	for _, requester := range slices.Backward(p.currentRequesters().local) {
		all = slices.Concat(requester.lineage, all)
	}
	return all
}

// guardrails returns the guardrails of all definitions that constrain the agent now.
func (p *permissions) guardrails() []permission.Guardrail { return guardrailsOf(p.constraining()) }

// guardrailsOf returns the guardrails of the agents' definitions, outermost first. Each is a group
// of its own, so that an Override in one never lifts a rule of another. The groups are numbered
// down from -1, because the groups of a call's own context are counted up from zero.
func guardrailsOf(agents []*permissions) (all []permission.Guardrail) {
	for _, p := range agents {
		if p.own.guardrail == nil {
			continue
		}
		g := *p.own.guardrail
		g.Name, g.Group = p.self.Name+"'s guardrail", -1-len(all)
		all = append(all, g)
	}
	return all
}

// constrainSandbox applies the sandboxes of all constraining definitions to the node's policy for
// commands. The second result is false if no definition restricts it.
func (p *permissions) constrainSandbox(policy sandbox.Policy) (_ sandbox.Policy, narrower bool) {
	for _, agent := range p.constraining() {
		if agent.own.sandbox != nil {
			policy, narrower = agent.own.sandbox(policy), true
		}
	}
	return policy, narrower
}
