package permission

import (
	"cmp"
	"fmt"
)

// Guardrail is a policy for a part of an agent's work. Guardrails nest. None
// of them widens what the agent may do: each can only deny more or ask more, and Override lifts what another
// guardrail around it denies. The zero Guardrail changes nothing.
type Guardrail struct {
	// Name names the guardrail for people. If it is "", the guardrail is called by its place, as
	// guardrail 1.
	Name string
	// FinalDeny holds all the way down; no Override lifts it.
	FinalDeny []Rule
	// Deny can be lifted by the Override of this guardrail or of one inside of it.
	Deny []Rule
	// Override lifts the Deny of this guardrail and of those around it, for the calls that it means exactly. It
	// lifts nothing of an agent's own policy, and nothing around an agent that works for another (Group).
	Override []Rule
	// Ask are rules for calls that a person has to answer, whatever allows them.
	Ask []Rule
	// Allow is what Default is not for. It grants nothing that the agent may not do without the guardrail.
	Allow []Rule
	// Default is for calls that no rule here speaks of, if Decides; else the guardrail says nothing of them.
	Default Action
	Decides bool
	// Group numbers the agents that the work has passed through: an Override lifts only denials
	// of its own group. Code that carries guardrails to another agent adds one.
	Group int
}

// Guardrail makes a guardrail of a policy: calls that it does not allow are denied or asked as it says.
func (p Policy) Guardrail() Guardrail {
	return Guardrail{FinalDeny: p.FinalDeny, Deny: p.Deny, Override: p.Override, Allow: p.Allow, Default: p.Default, Decides: true}
}

// guardrailLinks returns the guardrails around a call as links, the outermost first. Each gets the
// overrides of itself and of the guardrails inside it, but only of its own group: an agent's
// code must not lift what its requester denied.
func guardrailLinks(within []Guardrail) Chain {
	all := make(Chain, len(within))
	for i, g := range within {
		p := Policy{FinalDeny: g.FinalDeny, Deny: g.Deny, Allow: g.Allow, Default: Allow}
		if g.Decides {
			p.Default = g.Default
		}
		for _, inner := range within[i:] {
			if inner.Group == g.Group {
				p.Override = append(p.Override, inner.Override...)
			}
		}
		all[i] = Link{Name: cmp.Or(g.Name, fmt.Sprintf("guardrail %d", i+1)), Policy: p, guardrail: true, mute: !g.Decides, ask: g.Ask}
	}
	return all
}

// judge returns the verdict of a link. One that is made of a guardrail allows where no rule of it
// covers the call, and asks where one of Guardrail.Ask does.
func (l Link) judge(f *facts) Verdict {
	v := l.judgeRules(f)
	if l.guardrail && v.Source == "config" {
		v.Source = "guardrail"
	}
	if asks := l.asks(f); v.Action == Allow && asks != nil {
		v = decided(Ask, StageDefault, asks, "requires approval for this")
		v.Source = "guardrail"
	}
	return v
}

// asks returns the rule by which the guardrail asks about the call; nil if there is none.
func (l Link) asks(f *facts) *Rule {
	if len(l.ask) == 0 {
		return nil
	}
	asks, may := f.firstDenied(l.ask, nil, true)
	return cmp.Or(asks, may)
}
