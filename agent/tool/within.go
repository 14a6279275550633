package tool

import (
	"context"
	"slices"

	"symbio/security/permission"
	"symbio/security/sandbox"
)

// guardrails are the guardrails of a context, combined.
type guardrails struct {
	rules []permission.Guardrail // the outermost first
	held  *sandbox.Policy        // nil = nothing said
	group int
}

type guardrailsKey struct{}

// guardrailsOf returns the guardrails of ctx; the zero value if it has none.
func guardrailsOf(ctx context.Context) guardrails {
	b, _ := ctx.Value(guardrailsKey{}).(guardrails)
	return b
}

// Within returns ctx with a guardrail around all tool calls that are made with it, inside of those
// that ctx already has. If policy is not nil, commands get only the access that it and all policies around it
// allow (sandbox.Meet). Package guardrail makes guardrails from texts.
func Within(ctx context.Context, g permission.Guardrail, policy *sandbox.Policy) context.Context {
	b := guardrailsOf(ctx)
	g.Group = b.group
	b.rules = append(slices.Clip(b.rules), g)
	if policy != nil {
		both := *policy
		if b.held != nil {
			both = sandbox.Meet(*b.held, both)
		}
		b.held = &both
	}
	return context.WithValue(ctx, guardrailsKey{}, b)
}

// Guardrails returns the guardrails of ctx, the outermost first, and what commands get inside of
// them; nil = nothing is said of commands. The caller must not change them.
func Guardrails(ctx context.Context) ([]permission.Guardrail, *sandbox.Policy) {
	b := guardrailsOf(ctx)
	return b.rules, b.held
}

// HandOver returns ctx for work that is handed to another agent. The guardrails that the other
// agent adds form a new group, so that they cannot override those around them.
func HandOver(ctx context.Context) context.Context {
	b := guardrailsOf(ctx)
	if len(b.rules) == 0 {
		return ctx
	}
	b.group++
	return context.WithValue(ctx, guardrailsKey{}, b)
}

// Constrain returns the part of the policy p that a command gets inside the guardrails of ctx and
// the limits of the call's agent, without the files that rules deny to the call.
func Constrain(ctx context.Context, p sandbox.Policy) sandbox.Policy {
	p, _ = constrain(ctx, p)
	if j := currentOf(ctx).job; j.verdict.Plan != nil {
		if j.denied == nil {
			d := sandbox.DeniedFiles(j.verdict.Plan.Denied.Files())
			j.denied = &d
		}
		p.Files.Denied = bothDenied(p.Files.Denied, *j.denied)
	}
	return p
}

// WithoutDenied returns p without access to the files that rules deny now, too.
func WithoutDenied(p sandbox.Policy, d *permission.FileDenials) sandbox.Policy {
	p.Files.Denied = bothDenied(p.Files.Denied, sandbox.DeniedFiles(d.Files()))
	return p
}

func bothDenied(a, b sandbox.DeniedFiles) sandbox.DeniedFiles {
	return sandbox.DeniedFiles{
		Hidden: slices.Concat(a.Hidden, b.Hidden), ReadOnly: slices.Concat(a.ReadOnly, b.ReadOnly),
		Fixed: slices.Concat(a.Fixed, b.Fixed), Unknown: slices.Concat(a.Unknown, b.Unknown),
	}
}

// IsConstrained reports whether commands are constrained to less than the node's sandbox allows. A
// node that has switched the sandbox off for all commands has not switched it off for these.
func IsConstrained(ctx context.Context) bool {
	_, narrower := constrain(ctx, sandbox.Policy{})
	return narrower
}

// constrain applies the limits of the call's agent and of the guardrails of ctx to p. narrower
// reports whether there are any.
func constrain(ctx context.Context, p sandbox.Policy) (_ sandbox.Policy, narrower bool) {
	if hold := currentOf(ctx).set.cfg.Constrain; hold != nil {
		p, narrower = hold(p)
	}
	if b := guardrailsOf(ctx); b.held != nil {
		return sandbox.Meet(*b.held, p), true
	}
	return p, narrower
}

// within returns the guardrails around a call: the agent's guardrails, and inside of them the ones of the
// context.
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

// JudgeWithin judges a call by the guardrails of ctx alone, for work that runs outside of any Set.
// Without guardrails the call is allowed.
func JudgeWithin(ctx context.Context, c permission.Call) permission.Verdict {
	c.Within = guardrailsOf(ctx).rules
	return permission.Chain{{Policy: permission.Policy{Default: permission.Allow}}}.Judge(c)
}
