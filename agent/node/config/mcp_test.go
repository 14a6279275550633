package config

import (
	"strings"
	"testing"

	"symbio/security/sandbox"
)

func TestSandboxOfAnMCPServerIsReadAsThatOfACapability(t *testing.T) {
	if s, err := ParseSandbox(nil); s != nil || err != nil {
		t.Errorf("nothing: got %+v, %v", s, err)
	}
	s, err := ParseSandbox([]byte(`{"network": "full", "env": ["A"]}`))
	if err != nil {
		t.Fatal(err)
	}
	p, err := Default().Sandbox.Override(s).Policy(t.TempDir(), "/home/ada")
	if err != nil || p.Network != sandbox.NetworkFull {
		t.Errorf("got %+v, %v", p, err)
	}
	for text, want := range map[string]string{`"look"`: "look", `work`: "work", `{"preset": "look"}`: "look"} {
		if s, err := ParseSandbox([]byte(text)); err != nil || s.Preset != want {
			t.Errorf("%s: got %+v, %v", text, s, err)
		}
	}
	for text, want := range map[string]string{
		`{"network": "wide"}`: "network", `{"levels": ["bwrap"]}`: "levels", `{"hide": ["/x"]}`: "hide", `{"presets": "off"}`: "presets", `"all"`: "sandbox.preset", `[]`: "sandbox",
	} {
		if _, err := ParseSandbox([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error about %s", text, err, want)
		}
	}
}

func TestCapabilityIsOneThing(t *testing.T) {
	for text, want := range map[string]string{
		`{name: a, mcp: files/read}`:                           "",
		`{name: a, mcp: files}`:                                "SERVER/TOOL",
		`{name: a}`:                                            "exactly one of exec, agent, mcp and model",
		`{name: a, mcp: s/t, agent: general}`:                  "exactly one of exec, agent, mcp and model",
		`{name: a, mcp: s/t, exec: [x]}`:                       "exactly one of exec, agent, mcp and model",
		`{name: a, mcp: s/t, sandbox: {network: full}}`:        "sandbox",
		`{name: a, mcp: s/t, progress: true}`:                  "progress is for exec",
		`{name: a, exec: [x], agent: general, mcp: s/t, x: 1}`: "unknown key x",
	} {
		_, _, err := Parse("f", []byte("capabilities: ["+text+"]\n"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
