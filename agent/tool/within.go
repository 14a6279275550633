package tool

import (
	"context"
	"slices"

	"symbio/security/permission"
	"symbio/security/sandbox"
)

// bounds are what the guardrails of a context come to.
type bounds struct {
	rules []permission.Guardrail // the outermost first
	held  *sandbox.Policy        // nil = nothing said
	group int
}

type boundsKey struct{}

func boundsOf(ctx context.Context) bounds {
	b, _ := ctx.Value(boundsKey{}).(bounds)
	return b
}

// Within is ctx with a guardrail around all tool calls that are made with it, inside of those that ctx has. A
// sandbox policy, if not nil, holds their commands beside those around it: they get what all allow
// (sandbox.Meet). Package guardrail makes them of texts.
func Within(ctx context.Context, g permission.Guardrail, held *sandbox.Policy) context.Context {
	b := boundsOf(ctx)
	g.Group = b.group
	b.rules = append(slices.Clip(b.rules), g)
	if held != nil {
		both := *held
		if b.held != nil {
			both = sandbox.Meet(*b.held, both)
		}
		b.held = &both
	}
	return context.WithValue(ctx, boundsKey{}, b)
}

// Handed is ctx as it goes to another agent: what that one puts inside lifts nothing of what is around it.
func Handed(ctx context.Context) context.Context {
	b := boundsOf(ctx)
	if len(b.rules) == 0 {
		return ctx
	}
	b.group++
	return context.WithValue(ctx, boundsKey{}, b)
}

// Held is what a command may do under a policy inside the guardrails of ctx.
func Held(ctx context.Context, p sandbox.Policy) sandbox.Policy {
	if b := boundsOf(ctx); b.held != nil {
		return sandbox.Meet(*b.held, p)
	}
	return p
}

// Bounded is what the guardrails of ctx alone say of a call: for work that no agent does, and no Set guards.
// Without guardrails it is allowed.
func Bounded(ctx context.Context, c permission.Call) permission.Verdict {
	c.Within = boundsOf(ctx).rules
	return permission.Chain{{Policy: permission.Policy{Default: permission.Allow}}}.Judge(c)
}
