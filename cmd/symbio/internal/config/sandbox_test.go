package config_test

import (
	"slices"
	"strings"
	"testing"

	"symbio/cmd/symbio/internal/config"
	"symbio/security/sandbox"
)

func TestASandboxIsWhatItsConfigurationSays(t *testing.T) {
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
		if !slices.Equal(p.Files.Write, c.write) || p.Network != c.network || cfg.Sandbox.Off() != c.off {
			t.Errorf("%s: writes %v, network %v, levels %v", name, p.Files.Write, p.Network, cfg.Sandbox.Allowed())
		}
	}
	for text, want := range map[string]string{
		"sandbox: {preset: none}": "sandbox.preset", "sandbox: {network: some}": "sandbox.network", "sandbox: {write: [x]}": "sandbox.write",
		"sandbox: {level: native}": "level", "sandbox: {levels: [best]}": "sandbox.levels", "approvals: {timeout: 0s}": "approvals.timeout",
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
