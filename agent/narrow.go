package agent

import (
	"cmp"

	"symbio/security/permission"
	"symbio/security/sandbox"
)

// narrowed is the policy by which a definition narrows what its agents may do; false when it says
// nothing. A definition that only denies leaves the rest to the other links of the chain.
func (d Definition) narrowed() (permission.Policy, bool) {
	c := d.Permissions
	if c.Preset == "" && c.Default == "" && len(c.Allow)+len(c.Deny)+len(c.FinalDeny)+len(c.Override) == 0 {
		return permission.Policy{}, false
	}
	if c.Preset == "" {
		c.Preset = "none" // what it does not allow is asked
		if c.Default == "" && len(c.Allow) == 0 {
			c.Preset = "permissive"
		}
	}
	policy, err := c.Policy()
	if err != nil {
		return permission.Policy{}, true // it was checked when the definition was read; else it denies
	}
	return policy, true
}

// lower is the smaller of two limits, of which one that is zero says nothing.
func lower[N cmp.Ordered](a, b N) N {
	var none N
	switch {
	case a == none:
		return b
	case b == none:
		return a
	}
	return min(a, b)
}

// bounds are what a definition puts around the calls of its agents, read once.
type bounds struct {
	policy *permission.Policy    // nil = none
	rules  *permission.Guardrail // nil = none
	hold   narrowing             // nil = none
}

// boundsOf reads them. The error says what of the definition cannot be kept in that working directory.
func boundsOf(d Definition, dir string) (b bounds, err error) {
	if policy, ok := d.narrowed(); ok {
		b.policy = &policy
	}
	if !d.Guardrail.IsZero() {
		g, err := d.Guardrail.Guardrail()
		if err != nil {
			return bounds{}, err
		}
		rules := g.Rules()
		b.rules = &rules
	}
	if !d.Sandbox.IsZero() {
		b.hold, err = d.Sandbox.narrowing(dir)
	}
	return b, err
}

// bounded does it for the agents whose definitions bound the agent: those that it works for now, and itself, each behind
// its parents, the first of them first.
func (l *life) bounded(do func(*life)) {
	l.mu.Lock()
	masters := l.masters
	l.mu.Unlock()
	for _, m := range masters {
		m.line(do)
	}
	l.line(do)
}

func (l *life) line(do func(*life)) {
	if l.parent != nil {
		l.parent.line(do)
	}
	do(l)
}

// guardrails are those of the definitions around the agent. No Override in one lifts what another says, nor what the
// context of a call says: each is a group of its own, below those that are counted up from zero.
func (l *life) guardrails() (rules []permission.Guardrail) {
	l.bounded(func(b *life) { rules = b.guardrail(rules) })
	return rules
}

// ownGuardrails are those of its definition and of its parents', which never change.
func (l *life) ownGuardrails() (rules []permission.Guardrail) {
	l.line(func(b *life) { rules = b.guardrail(rules) })
	return rules
}

// guardrail is outer with that of the agent's own definition inside of it.
func (l *life) guardrail(outer []permission.Guardrail) []permission.Guardrail {
	if l.bounds.rules == nil {
		return outer
	}
	g := *l.bounds.rules
	g.Name, g.Group = l.self.Name+"'s guardrail", -1-len(outer)
	return append(outer, g)
}

// holdTo is what the definitions around the agent leave of what commands may do; false if they leave it as it is.
func (l *life) holdTo(p sandbox.Policy) (_ sandbox.Policy, narrower bool) {
	l.bounded(func(b *life) {
		if b.bounds.hold != nil {
			p, narrower = b.bounds.hold(p), true
		}
	})
	return p, narrower
}
