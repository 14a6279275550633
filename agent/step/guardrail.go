package step

import (
	"context"

	"symbio/agent/tool/guardrail"
)

// Guardrail is s inside a guardrail of these parts: it holds for every tool call inside, and for
// Agent and Capability, which are judged as the calls send_signal and invoke_capability would be. Guardrails nest,
// and can only take away: an inner Override lifts a plain Deny
// around it, nothing lifts DenyFinal. guardrail.Sandbox narrows what commands may do inside.
//
// With a part that cannot be read s never runs; the error names the rule.
func Guardrail[In, Out any](s Step[In, Out], parts ...guardrail.Part) Step[In, Out] {
	g, wrong := guardrail.New(parts...)
	return Func(func(ctx context.Context, in In) (out Out, err error) {
		if wrong != nil {
			return out, wrong
		}
		return s.Run(g.Around(ctx), in)
	})
}
