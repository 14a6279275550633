package agent

import (
	"slices"

	"symbio/agent/definition"
	"symbio/agent/tool/security"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

// definitionConstraints are what a definition puts around the calls of its agents, read once.
type definitionConstraints struct {
	policy    *permission.Policy                  // nil = none
	guardrail *permission.Guardrail               // nil = none
	sandbox   func(sandbox.Policy) sandbox.Policy // narrows what commands may do; nil = does not
}

// constraintsOf reads the constraints of a definition, and those of the sandbox of s, which may be nil. The error says what
// of them cannot be kept in that working directory.
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

// constraining returns the permissions of the agents whose definitions constrain the agent: those that it works for now and
// itself, each behind its parents. The caller must not change the slice.
func (p *permissions) constraining() []*permissions {
	all := p.line
	for _, requester := range slices.Backward(p.currentRequesters().local) {
		all = slices.Concat(requester.line, all)
	}
	return all
}

// guardrails returns those of the definitions around the agent.
func (p *permissions) guardrails() []permission.Guardrail { return guardrailsOf(p.constraining()) }

// ownGuardrails returns those of its definition and of its parents', which never change.
func (p *permissions) ownGuardrails() []permission.Guardrail { return guardrailsOf(p.line) }

// guardrailsOf returns the guardrails of the agents' definitions, the outer ones first. No Override in one lifts what
// another says, nor what the context of a call says: each is a group of its own, below those that are counted up from zero.
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

// constrainSandbox returns what the definitions around the agent leave of what commands may do; false if they leave it as
// it is.
func (p *permissions) constrainSandbox(policy sandbox.Policy) (_ sandbox.Policy, narrower bool) {
	for _, agent := range p.constraining() {
		if agent.own.sandbox != nil {
			policy, narrower = agent.own.sandbox(policy), true
		}
	}
	return policy, narrower
}
