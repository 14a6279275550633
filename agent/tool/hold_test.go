package tool_test

import (
	"context"
	"slices"
	"testing"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/agent/tool/guardrail"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

// What holds an agent's commands is the same when it is asked whether they can be held as when they run.
func TestSetHoldsConstraintsDuringCall(t *testing.T) {
	var asked, ran []sandbox.Network
	var narrowed bool
	look := func(ctx context.Context) sandbox.Network {
		narrowed = tool.IsConstrained(ctx)
		return tool.Constrain(ctx, sandbox.Policy{Network: sandbox.NetworkFull}).Network
	}
	command := tool.New(tool.Spec{Name: "run", Holds: func(ctx context.Context) error { asked = append(asked, look(ctx)); return nil }},
		func(ctx context.Context, _ struct{}) tool.Result { ran = append(ran, look(ctx)); return tool.Result{} })
	local := func(p sandbox.Policy) (sandbox.Policy, bool) {
		p.Network = min(p.Network, sandbox.NetworkLocal)
		return p, true
	}
	inner, err := guardrail.New(guardrail.Sandbox(sandbox.Restrictive()))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		hold func(sandbox.Policy) (sandbox.Policy, bool)
		ctx  context.Context
		want sandbox.Network
	}{
		{"nobody", nil, t.Context(), sandbox.NetworkFull},
		{"the Set", local, t.Context(), sandbox.NetworkLocal},
		{"the context", nil, inner.Around(t.Context()), sandbox.NetworkNone},
		{"both", local, inner.Around(t.Context()), sandbox.NetworkNone},
	} {
		asked, ran = nil, nil
		set := tool.NewSet(tool.SetConfig{Guard: permission.Chain{{Policy: permission.Policy{Default: permission.Allow}}},
			Constrain: test.hold}, command)
		set.Run(test.ctx, []llm.ToolCall{{ID: "1", Name: "run", Args: []byte("{}")}})
		if want := []sandbox.Network{test.want}; !slices.Equal(asked, want) || !slices.Equal(ran, want) ||
			narrowed != (test.name != "nobody") {
			t.Errorf("%s holds it: asked about %v, ran with %v, narrowed %v; want %v", test.name, asked, ran, narrowed, want)
		}
	}
}
