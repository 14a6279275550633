package security_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/tool"
	"symbio/agent/tool/security"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

func TestPresetSetsRulesAndSandbox(t *testing.T) {
	dir := t.TempDir()
	standard, err := sandbox.Standard(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		rules   permission.Policy
		sandbox sandbox.Policy
		off     bool
	}{
		"standard":    {permission.Standard(), standard, false},
		"development": {permission.Development(), sandbox.Permissive(), true},
		"restrictive": {permission.Restrictive(), sandbox.Restrictive(), false},
		"read-only":   {permission.ReadOnly(), sandbox.Restrictive(), false},
	} {
		s, err := security.Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		rules, err := s.Permissions.Policy()
		if err != nil || rules.Digest() != want.rules.Digest() {
			t.Errorf("%s: the rules are %v, %v", name, rules.Rules(), err)
		}
		held, err := s.SandboxPolicy(dir)
		if diff := cmp.Diff(want.sandbox, held); diff != "" || err != nil || s.Off() != want.off {
			t.Errorf("%s: off %v, %v (-want +got)\n%s", name, s.Off(), err, diff)
		}
	}
	if _, err := security.Preset("lax"); err == nil || !strings.Contains(err.Error(), strings.Join(security.Names(), ", ")) {
		t.Errorf("an unknown preset: %v", err)
	}
	own := sandbox.Policy{Network: sandbox.NetworkFull}
	if p, err := (security.Config{Policy: &own, Sandbox: "off"}).SandboxPolicy(dir); err != nil || p.Network != own.Network {
		t.Errorf("a policy of its own gives %v, %v", p, err)
	}
}

func TestTerminal(t *testing.T) {
	decision := tool.Decision{Agent: "ann", Tool: "Bash", Args: map[string]any{"command": "echo <a>\u202e\x1b[2J"}}
	for typed, want := range map[string]tool.Answer{
		"y\n": {Allow: true, By: "terminal"}, "Always\n": {Allow: true, Always: true, By: "terminal"}, "b\n": {Always: true, By: "terminal"},
		"\nwhat\nn\n": {By: "terminal"}, "": {By: "terminal"}, "y": {By: "terminal"},
	} {
		var out bytes.Buffer
		if got := security.Terminal(strings.NewReader(typed), &out)(t.Context(), decision); got != want {
			t.Errorf("%q is %+v, want %+v", typed, got, want)
		}
		if text := out.String(); !strings.Contains(text, `echo <a>`) || strings.ContainsAny(text, "\u202e\x1b") {
			t.Errorf("it shows %q", text)
		}
	}
}

// A line that comes after a question has ended answers the next one only if that has been shown by then.
func TestTerminalEndsWithItsContext(t *testing.T) {
	in, typing := io.Pipe()
	ask := security.Terminal(in, io.Discard)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := ask(ctx, tool.Decision{}); got.Allow || got.Why == "" {
		t.Errorf("without time it is %+v", got)
	}
	answers := make(chan tool.Answer)
	go func() { answers <- ask(t.Context(), tool.Decision{}) }()
	if _, err := typing.Write([]byte("what\nyes\n")); err != nil {
		t.Fatal(err)
	}
	if got := <-answers; !got.Allow {
		t.Errorf("the answer is %+v", got)
	}
}
