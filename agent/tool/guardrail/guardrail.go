// Package guardrail makes policies for parts of an agent's work, and puts them around it.
//
// The one idea: a guardrail is a value that travels in a context. Every tool call made with that
// context, by whatever agent and however deep, is judged by it beside the agent's own permissions,
// and the strictest says. So a guardrail can only take away: it denies, has a person asked, or
// narrows the sandbox. Guardrails nest; an inner Override lifts a plain Deny around it, never a
// DenyFinal, an agent's own policy, or what another agent put around the work.
//
//	g, err := guardrail.New(
//		guardrail.DenyFinal("Bash(rm -rf:*)", "Bash(sudo:*)"),
//		guardrail.Deny("Bash(rm:*)"),
//		guardrail.If(production, guardrail.Deny("Bash"), guardrail.Sandbox(sandbox.Restrictive())),
//	)
//	...
//	result := set.Run(g.Around(ctx), calls)
//
// Values are safe for many goroutines. It does not say what an agent may do at all; that is package
// permission.
package guardrail

import (
	"context"
	"errors"
	"fmt"

	"symbio/agent/tool"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

// Guardrail is made by New. The zero Guardrail changes nothing.
type Guardrail struct {
	rules permission.Guardrail
	held  *sandbox.Policy
}

// Part is one line of a guardrail.
type Part func(*Guardrail) error

// New makes a guardrail of its parts, in any order. The error joins one *permission.RuleError for
// each rule that cannot be read; the Guardrail beside it denies everything.
func New(parts ...Part) (Guardrail, error) {
	var g Guardrail
	if err := g.add(parts); err != nil {
		return Guardrail{rules: permission.Guardrail{FinalDeny: make([]permission.Rule, 1)}}, fmt.Errorf("guardrail: %w", err)
	}
	return g, nil
}

func (g *Guardrail) add(parts []Part) error {
	var errs []error
	for _, p := range parts {
		errs = append(errs, p(g))
	}
	return errors.Join(errs...)
}

// Around is ctx with the guardrail around all tool calls that are made with it.
func (g Guardrail) Around(ctx context.Context) context.Context {
	return tool.Within(ctx, g.rules, g.held)
}

// Allow names what a preset's default is not for. It lets nothing be done that the agent may not do
// without the guardrail.
func Allow(rules ...string) Part { return ruleList("allow", permission.Rules(rules...)) }

// Deny denies; an Override inside lifts it.
func Deny(rules ...string) Part { return ruleList("deny", permission.Rules(rules...)) }

// DenyFinal denies all the way down.
func DenyFinal(rules ...string) Part { return ruleList("final_deny", permission.Rules(rules...)) }

// Override lifts what this guardrail, or one around it, denies plainly.
func Override(rules ...string) Part { return ruleList("override", permission.Rules(rules...)) }

// AskUser has a person say, whatever else allows the call.
func AskUser(rules ...string) Part { return ruleList("ask", permission.Rules(rules...)) }

// Sandbox narrows what commands may do. Several come to what all of them allow.
func Sandbox(p sandbox.Policy) Part {
	return func(g *Guardrail) error {
		if g.held != nil {
			p = sandbox.Meet(*g.held, p)
		}
		g.held = &p
		return nil
	}
}

// Preset adds the rules of a preset of package permission, such as read_only, and its default for
// what no rule speaks of.
func Preset(name string) Part {
	return func(g *Guardrail) error {
		p, err := permission.Preset(name)
		if err != nil {
			return err
		}
		of := p.Guardrail()
		g.rules.FinalDeny = append(g.rules.FinalDeny, of.FinalDeny...)
		g.rules.Deny = append(g.rules.Deny, of.Deny...)
		g.rules.Override = append(g.rules.Override, of.Override...)
		g.rules.Allow = append(g.rules.Allow, of.Allow...)
		if !g.rules.Decides || of.Default < g.rules.Default {
			g.rules.Default, g.rules.Decides = of.Default, true
		}
		return nil
	}
}

// Otherwise says what becomes of calls that no rule of the guardrail speaks of. Without it, and
// without a preset, the guardrail says nothing of them.
func Otherwise(a permission.Action) Part {
	return func(g *Guardrail) error {
		g.rules.Default, g.rules.Decides = a, true
		return nil
	}
}

// If adds parts when a condition holds.
func If(condition bool, parts ...Part) Part {
	return func(g *Guardrail) error {
		if !condition {
			return nil
		}
		return g.add(parts)
	}
}

// ruleList adds rules to the list with this name.
func ruleList(name string, texts []permission.RuleText) Part {
	return func(g *Guardrail) error {
		of := &g.rules
		to := map[string]*[]permission.Rule{"final_deny": &of.FinalDeny, "deny": &of.Deny, "override": &of.Override, "ask": &of.Ask, "allow": &of.Allow}[name]
		var errs []error
		for _, text := range texts {
			r, err := text.Parse(name)
			errs = append(errs, err)
			*to = append(*to, r)
		}
		return errors.Join(errs...)
	}
}
