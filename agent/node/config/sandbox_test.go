package config_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"symbio/agent/node/config"
	"symbio/security/sandbox"
)

func TestSandboxIsWhatItsConfigurationSays(t *testing.T) {
	work, more := t.TempDir(), t.TempDir()
	for name, c := range map[string]struct {
		text    string
		write   []string
		network sandbox.Network
		off     bool
	}{
		"the default":        {"", []string{work}, sandbox.NetworkLocal, false},
		"restrictive":        {"sandbox: {preset: restrictive}", nil, sandbox.NetworkNone, false},
		"permissive":         {"sandbox: {preset: permissive}", []string{"/"}, sandbox.NetworkFull, false},
		"one word":           {"sandbox: look", nil, sandbox.NetworkNone, false},
		"another":            {"sandbox: work", []string{work}, sandbox.NetworkLocal, false},
		"over security":      {"security: workspace\nsandbox: restrictive", nil, sandbox.NetworkNone, false},
		"below security":     {"security: development\nsandbox: {network: none}", []string{"/"}, sandbox.NetworkNone, true},
		"one more directory": {"sandbox: {write: [" + more + "]}", []string{work, more}, sandbox.NetworkLocal, false},
		"the network":        {"sandbox: {network: full}", []string{work}, sandbox.NetworkFull, false},
		"off":                {"sandbox: {preset: off}", []string{"/"}, sandbox.NetworkFull, true},
	} {
		cfg, _, err := config.Parse("symbio.yaml", []byte(c.text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		p, err := cfg.Sandbox.Policy(work, "/home/ann")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		slices.Sort(p.Files.Write)
		slices.Sort(c.write)
		if !slices.Equal(p.Files.Write, c.write) || p.Network != c.network || cfg.Sandbox.IsOff() != c.off {
			t.Errorf("%s: writes %v, network %v, levels %v", name, p.Files.Write, p.Network, cfg.Sandbox.AllowedLevels())
		}
	}
	for text, want := range map[string]string{
		"sandbox: {preset: none}": "sandbox.preset", "sandbox: {network: some}": "sandbox.network", "sandbox: {write: [x]}": "sandbox.write",
		"sandbox: looks": `sandbox.preset "looks"`, "sandbox: [look]": "sandbox", "sandbox: {scripts: write}": "sandbox.scripts", "node: {name: a}\nsandbox:\n  networks: full": "line 3: unknown key networks",
		"sandbox: {level: native}": "level", "sandbox: {levels: [best]}": "sandbox.levels", "approvals: {timeout: 0s}": "approvals.timeout",
		"effort: most": "effort: write low, medium or high",
	} {
		cfg, _, err := config.Parse("symbio.yaml", []byte(text))
		if err == nil {
			err = cfg.Check()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error about %s", text, err, want)
		}
	}
}

func TestCapabilityHasASandboxOfItsOwn(t *testing.T) {
	work, more := t.TempDir(), t.TempDir()
	const node = "sandbox: {network: full, write: [MORE], env: [A], show: [~/.ssh], sockets: [~/s], hide: [~/mine], levels: [native]}\n"
	for own, want := range map[string]string{
		"":                           "full [WORK MORE] [A] [/h/.ssh] [/h/s] false",
		", sandbox: {}":              "full [WORK MORE] [A] [/h/.ssh] [/h/s] false",
		", sandbox: {network: none}": "none [WORK MORE] [A] [/h/.ssh] [/h/s] false",
		", sandbox: {write: []}":     "full [WORK] [A] [/h/.ssh] [/h/s] false",
		", sandbox: {show: [~/.aws, /x], env: [B]}":                    "full [WORK MORE] [B] [/h/.aws /x] [/h/s] false",
		", sandbox: {sockets: [/run/d]}":                               "full [WORK MORE] [A] [/h/.ssh] [/run/d] false",
		", sandbox: {preset: standard}":                                "local [WORK] [] [] false",
		", sandbox: work":                                              "local [WORK] [] [] false",
		", sandbox: {preset: restrictive, write: [MORE], env: [B, C]}": "none [MORE] [B C] [] false",
		", sandbox: {preset: permissive}":                              "full [/] [] [] false",
		", sandbox: {preset: off}":                                     "full [/] [] [] true",
	} {
		places := strings.NewReplacer("MORE", more, "WORK", work)
		cfg, _, err := config.Parse("f", []byte(places.Replace(node+"capabilities: [{name: a, exec: [x]"+own+"}]\n")))
		if err != nil {
			t.Fatalf("%s: %v", own, err)
		}
		s := cfg.Sandbox.Override(cfg.Capabilities[0].Sandbox)
		p, err := s.Policy(work, "/h")
		if err != nil {
			t.Fatalf("%s: %v", own, err)
		}
		expected := strings.Fields(places.Replace(strings.NewReplacer("[", " ", "]", " ").Replace(want)))
		got := slices.Concat([]string{p.Network.String()}, p.Files.Write, p.Env, p.Files.Show, p.Files.Sockets, []string{strconv.FormatBool(s.IsOff())})
		slices.Sort(got)
		slices.Sort(expected)
		if !slices.Equal(got, expected) {
			t.Errorf("%s: got %q, want %q", own, got, expected)
		}
		if !slices.Equal(s.HiddenPaths("/h"), []string{"/h/mine"}) || len(s.AllowedLevels()) != 1 {
			t.Errorf("%s: hides %v at the levels %v; these are the node's", own, s.HiddenPaths("/h"), s.AllowedLevels())
		}
	}
	for own, want := range map[string]string{
		"exec: [x], sandbox: {preset: all}":       "sandbox.preset \"all\"",
		"exec: [x], sandbox: all":                 "sandbox.preset \"all\"",
		"exec: [x], sandbox: {scripts: work}":     "sandbox.scripts",
		"exec: [x], sandbox: {levels: []}":        "sandbox.levels",
		"exec: [x], sandbox: {hide: [/x]}":        "sandbox.hide",
		"exec: [x], sandbox: {network: all}":      "sandbox.network \"all\"",
		"exec: [x], sandbox: {sockets: [x]}":      "sandbox.sockets \"x\"",
		"exec: [x], sandbox: {show: [x]}":         "sandbox.show \"x\"",
		"exec: [x], sandbox: {show: [~ann/x]}":    "sandbox.show \"~ann/x\"",
		"exec: [x], sandbox: {show: [~/.ssh/id]}": "is inside ~/.ssh",
		"exec: [x], sandbox: {nets: full}":        "unknown key nets",
		"agent: x, sandbox: {preset: off}":        "sandbox is for exec",
	} {
		if _, _, err := config.Parse("f", []byte("capabilities: [{name: a, "+own+"}]\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error about %s", own, err, want)
		}
	}
}
