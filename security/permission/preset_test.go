package permission_test

import (
	"errors"
	"strings"
	"testing"

	"symbio/security/permission"
)

func TestPresetsMeanWhatTheSpecSays(t *testing.T) {
	const a, k, d = permission.Allow, permission.Ask, permission.Deny
	calls := []permission.Call{
		call("Read", "file_path", "x"), call("Read", "file_path", "/etc/x"), call("Write", "file_path", "x"), bash("make"), bash("sudo ls"),
		call("activate_skill", "name", "x"), call("replicate_agent"), call("mcp__x__y"),
	}
	for name, want := range map[string][]permission.Action{
		"standard":    {a, a, k, k, d, a, a, k},
		"workspace":   {a, a, a, k, d, a, a, k},
		"development": {a, a, a, k, d, a, a, k},
		"restrictive": {a, d, d, d, d, d, d, d},
		"read_only":   {a, a, d, d, d, a, d, d},
		"readOnly":    {a, a, d, d, d, a, d, d},
		"permissive":  {a, a, a, a, a, a, a, a},
		"none":        {k, k, k, k, k, k, k, k},
	} {
		p, err := permission.Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range calls {
			if got := (permission.Chain{{Policy: p}}).Judge(c).Action; got != want[i] {
				t.Errorf("%s: %s %v: got %v, want %v", name, c.Tool, c.Args, got, want[i])
			}
		}
	}
	if _, err := permission.Preset("lax"); err == nil || !strings.Contains(err.Error(), "restrictive") {
		t.Errorf("an unknown preset: %v; want an error that lists them", err)
	}
}

func TestConfigAddsToItsPreset(t *testing.T) {
	p, err := permission.Config{Preset: "read_only", Allow: permission.Rules("send_signal"), Deny: permission.Rules("Read(*.pem)"),
		Default: "ask"}.Policy()
	if err != nil {
		t.Fatal(err)
	}
	for tool, want := range map[string]permission.Action{"send_signal": permission.Allow, "mcp__a__b": permission.Ask,
		"Write": permission.Deny} {
		if got := judged(p, call(tool)).Action; got != want {
			t.Errorf("%s: got %v, want %v", tool, got, want)
		}
	}
	if p, err := (permission.Config{}).Policy(); err != nil || judged(p, call("Write")).Action != permission.Ask {
		t.Errorf("the zero Config: %v; want the preset standard", err)
	}
}

func TestConfigNamesEachBadRuleAndItsList(t *testing.T) {
	p, err := permission.Config{Preset: "nope", Allow: permission.Rules("Read", "Bash(git:*"), FinalDeny: permission.Rules("Bash()"),
		Default: "maybe"}.Policy()
	for _, want := range []string{`allow rule "Bash(git:*", column 11`, `final_deny rule "Bash()", column 6`, `preset "nope"`,
		`default: "maybe"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %s:\n%v", want, err)
		}
	}
	var bad *permission.RuleError
	if !errors.As(err, &bad) || bad.List != "allow" {
		t.Errorf("got %+v, want a RuleError of the list allow", bad)
	}
	if got := judged(p, call("Read", "file_path", "x")).Action; got != permission.Deny {
		t.Errorf("the policy beside the error: got %v, want deny", got)
	}
}
