package guardrail_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/agent/tool/guardrail"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

type pathArgs struct {
	Path string `json:"file_path"`
}

// run calls a tool that an agent may call with anything, within a context, and reports whether it ran.
func run(ctx context.Context, t *testing.T, name, path string) (ran bool, text string) {
	t.Helper()
	all, err := permission.Config{Preset: "permissive"}.Policy()
	if err != nil {
		t.Fatal(err)
	}
	set := tool.NewSet(tool.SetConfig{Guard: permission.Chain{{Name: "ann", Policy: all}}, Dir: "/w"},
		tool.New(tool.Spec{Name: name}, func(context.Context, pathArgs) tool.Result { ran = true; return tool.Result{} }))
	args, err := json.Marshal(pathArgs{path})
	if err != nil {
		t.Fatal(err)
	}
	r := set.Run(ctx, []llm.ToolCall{{ID: "1", Name: name, Args: args}})
	return ran, r[0].Text
}

func around(ctx context.Context, t *testing.T, parts ...guardrail.Part) context.Context {
	t.Helper()
	g, err := guardrail.New(parts...)
	if err != nil {
		t.Fatal(err)
	}
	return g.Around(ctx)
}

func TestGuardrailHoldsForTheCallsOfItsContext(t *testing.T) {
	ctx := t.Context()
	noWrite := around(ctx, t, guardrail.Deny("Write(/w/*)"))
	for name, c := range map[string]struct {
		ctx        context.Context
		tool, path string
		want       bool
	}{
		"without one":                 {ctx, "Write", "/w/a", true},
		"with one":                    {noWrite, "Write", "/w/a", false},
		"another call":                {noWrite, "Read", "/w/a", true},
		"an override inside":          {around(noWrite, t, guardrail.Override("Write(/w/a)")), "Write", "/w/a", true},
		"an override after a handing": {around(tool.HandOver(noWrite), t, guardrail.Override("Write(/w/a)")), "Write", "/w/a", false},
		"a final one":                 {around(around(ctx, t, guardrail.DenyFinal("Write(/w/*)")), t, guardrail.Override("Write(/w/a)")), "Write", "/w/a", false},
		"nobody to ask":               {around(ctx, t, guardrail.AskUser("Read")), "Read", "/w/a", false},
		"a preset":                    {around(ctx, t, guardrail.Preset("read_only")), "Write", "/w/a", false},
		"a preset that reads":         {around(ctx, t, guardrail.Preset("read_only")), "Read", "/w/a", true},
		"a preset and an allow":       {around(ctx, t, guardrail.Preset("restrictive"), guardrail.Allow("Write")), "Write", "/w/a", true},
		"a condition that holds":      {around(ctx, t, guardrail.If(true, guardrail.Deny("Read"))), "Read", "/w/a", false},
		"one that does not":           {around(ctx, t, guardrail.If(false, guardrail.Deny("Read"))), "Read", "/w/a", true},
		"a list of what is allowed":   {around(ctx, t, guardrail.Allow("Read"), guardrail.Otherwise(permission.Deny)), "Write", "/w/a", false},
		"the zero guardrail":          {guardrail.Guardrail{}.Around(ctx), "Write", "/w/a", true},
		"two contexts of one":         {noWrite, "Write", "/w/a", false},
	} {
		if ran, text := run(c.ctx, t, c.tool, c.path); ran != c.want {
			t.Errorf("%s: it ran: %v, want %v (%s)", name, ran, c.want, text)
		}
	}
}

func TestRuleThatCannotBeReadDeniesEverything(t *testing.T) {
	g, err := guardrail.New(guardrail.Allow("Read"), guardrail.If(true, guardrail.Deny("Bash(git:*")))
	var bad *permission.RuleError
	if !errors.As(err, &bad) || bad.List != "deny" || !strings.Contains(err.Error(), "Bash(git:*") {
		t.Errorf("error %v", err)
	}
	if ran, _ := run(g.Around(t.Context()), t, "Read", "/w/a"); ran {
		t.Error("something ran under a guardrail that cannot be read")
	}
	if _, err := guardrail.New(guardrail.Preset("loose")); err == nil {
		t.Error("a preset that is not there is no error")
	}
}

func TestSandboxesMeet(t *testing.T) {
	own := sandbox.Policy{Network: sandbox.NetworkFull, Subprocess: true}
	local := sandbox.Policy{Network: sandbox.NetworkLocal, Subprocess: true}
	ctx := around(t.Context(), t, guardrail.Sandbox(local))
	if got := tool.Constrain(ctx, own); got.Network != sandbox.NetworkLocal || !got.Subprocess {
		t.Errorf("inside one: %+v", got)
	}
	ctx = around(ctx, t, guardrail.Sandbox(own), guardrail.Sandbox(sandbox.Policy{Network: sandbox.NetworkFull}))
	if got := tool.Constrain(ctx, own); got.Network != sandbox.NetworkLocal || got.Subprocess {
		t.Errorf("inside two: %+v", got)
	}
	if got := tool.Constrain(t.Context(), own); got.Network != sandbox.NetworkFull {
		t.Errorf("outside: %+v", got)
	}
}

func ExampleNew() {
	g, err := guardrail.New(
		guardrail.DenyFinal("Bash(rm -rf:*)", "Bash(sudo:*)"),
		guardrail.Deny("Bash(rm:*)"),
		guardrail.AskUser("Bash(git push:*)"),
	)
	if err != nil {
		return
	}
	ctx := g.Around(context.Background())
	_ = ctx // for the tool calls of a part of the work
}
