package step_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"symbio/agent/llm"
	"symbio/agent/step"
	"symbio/agent/tool"
	"symbio/agent/tool/guardrail"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

type bashArgs struct {
	Command string `json:"command"`
}

type fileArgs struct {
	Path string `json:"file_path"`
}

// calls is a step that has an agent that may do anything call a tool: what stands before the blank with what stands
// behind it. Its output is the sandbox that the tool was held by.
func calls(t *testing.T) step.Step[string, sandbox.Policy] {
	t.Helper()
	all, err := permission.Config{Preset: "permissive"}.Policy()
	if err != nil {
		t.Fatal(err)
	}
	return step.Func(func(ctx context.Context, in string) (held sandbox.Policy, err error) {
		note := func(ctx context.Context) tool.Result {
			held = tool.Constrain(ctx, sandbox.Policy{Network: sandbox.NetworkFull, Subprocess: true})
			return tool.Result{}
		}
		name, arg, _ := strings.Cut(in, " ")
		set := tool.NewSet(tool.SetConfig{Guard: permission.Chain{{Name: "ann", Policy: all}}, Dir: "/w"},
			tool.New(tool.Spec{Name: "Bash"}, func(ctx context.Context, _ bashArgs) tool.Result { return note(ctx) }),
			tool.New(tool.Spec{Name: "Read"}, func(ctx context.Context, _ fileArgs) tool.Result { return note(ctx) }),
			tool.New(tool.Spec{Name: "Write"}, func(ctx context.Context, _ fileArgs) tool.Result { return note(ctx) }))
		var args any = fileArgs{arg}
		if name == "Bash" {
			args = bashArgs{arg}
		}
		raw, err := json.Marshal(args)
		if err != nil {
			return held, err
		}
		if r := set.Run(ctx, []llm.ToolCall{{ID: "1", Name: name, Args: raw}})[0]; r.IsError {
			return held, errors.New(r.Text)
		}
		return held, nil
	})
}

// The permission engine says what a step may have its tools do; the steps only put guardrails around it.
func TestGuardrailsNestAroundSteps(t *testing.T) {
	type parts = []guardrail.Part
	noRemoval := parts{guardrail.DenyFinal("Bash(rm -rf:*)", "Bash(sudo:*)"), guardrail.Deny("Bash(rm:*)")}
	cleanup := parts{guardrail.Override("Bash(rm a.tmp)", "Bash(rm -rf:*)")}
	for name, c := range map[string]struct {
		around []parts // the outermost first
		call   string
		want   bool
	}{
		"nothing around it":                     {nil, "Bash rm x", true},
		"Deny":                                  {[]parts{noRemoval}, "Bash rm x", false},
		"Deny of something else":                {[]parts{noRemoval}, "Bash ls", true},
		"Deny holds deeper":                     {[]parts{noRemoval, {}, {}}, "Bash rm x", false},
		"Override lifts a Deny around it":       {[]parts{noRemoval, cleanup}, "Bash rm a.tmp", true},
		"Override lifts what it names alone":    {[]parts{noRemoval, cleanup}, "Bash rm x", false},
		"Override lifts no DenyFinal":           {[]parts{noRemoval, cleanup}, "Bash rm -rf x", false},
		"DenyFinal holds all the way down":      {[]parts{noRemoval, {}, {guardrail.Override("Bash(sudo:*)")}}, "Bash sudo ls", false},
		"Override outside lifts nothing inside": {[]parts{cleanup, noRemoval}, "Bash rm a.tmp", false},
		"Allow widens nothing":                  {[]parts{noRemoval, {guardrail.Allow("Bash(rm:*)")}}, "Bash rm x", false},
		"AskUser with nobody to ask":            {[]parts{{guardrail.AskUser("Bash(git push:*)")}}, "Bash git push", false},
		"read only: reading":                    {[]parts{{guardrail.Preset("readOnly")}}, "Read /w/a", true},
		"read only: writing":                    {[]parts{{guardrail.Preset("readOnly")}}, "Write /w/a", false},
		"standard asks":                         {[]parts{{guardrail.Preset("standard")}}, "Write /w/a", false},
		"restrictive":                           {[]parts{{guardrail.Preset("restrictive")}}, "Read /etc/passwd", false},
		"a condition that holds":                {[]parts{{guardrail.If(true, guardrail.Deny("Bash"))}}, "Bash ls", false},
		"a condition that does not":             {[]parts{{guardrail.If(false, guardrail.Deny("Bash"))}}, "Bash ls", true},
	} {
		s := calls(t)
		for i := len(c.around) - 1; i >= 0; i-- {
			s = step.Guardrail(s, c.around[i]...)
		}
		// Composed as any step: it holds beside others, and in what is tried again.
		_, err := step.Race(step.Retry(step.Again{Tries: 1}, s)).Run(t.Context(), c.call)
		if (err == nil) != c.want {
			t.Errorf("%s: %s: got %v, allowed: want %v", name, c.call, err, c.want)
		}
	}
}

func TestGuardrailHoldsForItsStepAlone(t *testing.T) {
	s := step.Chain2(
		step.Guardrail(step.Catch(func(context.Context, string, error) (sandbox.Policy, error) { return sandbox.Policy{}, nil }, calls(t)),
			guardrail.Deny("Bash")),
		step.Transform(func(sandbox.Policy) string { return "Bash ls" }))
	run(t, step.Chain2(s, calls(t)), "Bash ls")
}

func TestSandboxOfAGuardrailHoldsInside(t *testing.T) {
	s := step.Guardrail(step.Guardrail(calls(t), guardrail.Sandbox(sandbox.Policy{Network: sandbox.NetworkFull})),
		guardrail.Sandbox(sandbox.Policy{Network: sandbox.NetworkLocal, Subprocess: true}))
	if got := run(t, s, "Bash ls"); got.Network != sandbox.NetworkLocal || got.Subprocess {
		t.Errorf("inside two: %+v", got)
	}
	if got := run(t, calls(t), "Bash ls"); got.Network != sandbox.NetworkFull || !got.Subprocess {
		t.Errorf("outside: %+v", got)
	}
}

func TestGuardrailThatCannotBeReadLetsNothingRun(t *testing.T) {
	ran := false
	s := step.Guardrail(step.Transform(func(int) int { ran = true; return 1 }), guardrail.Deny("Bash("))
	_, err := s.Run(t.Context(), 1)
	if _, ok := errors.AsType[*permission.RuleError](err); !ok || ran {
		t.Errorf("got %v, ran: %v", err, ran)
	}
}
