package tool

import (
	"context"
	"slices"

	"symbio/security/permission"
	"symbio/security/sandbox"
)

// guardrails are what the guardrails of a context come to.
type guardrails struct {
	rules []permission.Guardrail // the outermost first
	held  *sandbox.Policy        // nil = nothing said
	group int
}

type guardrailsKey struct{}

func guardrailsOf(ctx context.Context) guardrails {
	b, _ := ctx.Value(guardrailsKey{}).(guardrails)
	return b
}

// Within is ctx with a guardrail around all tool calls that are made with it, inside of those that ctx has. A
// sandbox policy, if not nil, holds their commands beside those around it: they get what all allow
// (sandbox.Meet). Package guardrail makes them of texts.
func Within(ctx context.Context, g permission.Guardrail, held *sandbox.Policy) context.Context {
	b := guardrailsOf(ctx)
	g.Group = b.group
	b.rules = append(slices.Clip(b.rules), g)
	if held != nil {
		both := *held
		if b.held != nil {
			both = sandbox.Meet(*b.held, both)
		}
		b.held = &both
	}
	return context.WithValue(ctx, guardrailsKey{}, b)
}

// HandOver is ctx as it goes to another agent: what that one puts inside lifts nothing of what is around it.
func HandOver(ctx context.Context) context.Context {
	b := guardrailsOf(ctx)
	if len(b.rules) == 0 {
		return ctx
	}
	b.group++
	return context.WithValue(ctx, guardrailsKey{}, b)
}

// Constrain is what a command may do under a policy inside the guardrails of ctx, and what the call's agent is held to, without
// the files that rules deny to the call.
func Constrain(ctx context.Context, p sandbox.Policy) sandbox.Policy {
	p, _ = constrain(ctx, p)
	if j := currentOf(ctx).job; j.verdict.Plan != nil {
		if j.denied == nil {
			d := sandbox.Denied(j.verdict.Plan.Denied.Files())
			j.denied = &d
		}
		p.Files.Denied = *j.denied
	}
	return p
}

// WithoutDenied is the policy without the files that rules deny now.
func WithoutDenied(p sandbox.Policy, d *permission.Denied) sandbox.Policy {
	p.Files.Denied = sandbox.Denied(d.Files())
	return p
}

// IsConstrained says that commands are to be held to less than what holds all of them here. Who has switched the sandbox off
// for all has not switched it off for these.
func IsConstrained(ctx context.Context) bool {
	_, narrower := constrain(ctx, sandbox.Policy{})
	return narrower
}

func constrain(ctx context.Context, p sandbox.Policy) (_ sandbox.Policy, narrower bool) {
	if hold := currentOf(ctx).set.cfg.Constrain; hold != nil {
		p, narrower = hold(p)
	}
	if b := guardrailsOf(ctx); b.held != nil {
		return sandbox.Meet(*b.held, p), true
	}
	return p, narrower
}

// within are the guardrails around a call: those of the agent, and inside of them those of the context.
func (s *Set) within(ctx context.Context) []permission.Guardrail {
	inner := guardrailsOf(ctx).rules
	if s.cfg.Within == nil {
		return inner
	}
	if outer := s.cfg.Within(); len(outer) > 0 {
		return append(slices.Clip(outer), inner...)
	}
	return inner
}

// JudgeWithin is what the guardrails of ctx alone say of a call: for work that no agent does, and no Set guards.
// Without guardrails it is allowed.
func JudgeWithin(ctx context.Context, c permission.Call) permission.Verdict {
	c.Within = guardrailsOf(ctx).rules
	return permission.Chain{{Policy: permission.Policy{Default: permission.Allow}}}.Judge(c)
}
