package config

import (
	"fmt"
	"path/filepath"
	"slices"

	"symbio/security/sandbox"
)

// Sandbox says what the commands that agents run may do, and that the operating system holds them to it. It
// is the user's own choice: no project, skill or model changes it (security.md 3.7).
type Sandbox struct {
	// Preset is standard (the workspace is written, a network of the command's own), restrictive (nothing is
	// written, no network, no further programs), permissive (the machine's network, all files that the user
	// may write) or off (no sandbox at all).
	Preset string `yaml:"preset"`
	// Network is none, local (a network of the command's own) or full; "" = the preset's.
	Network string `yaml:"network,omitempty"`
	// Write are directories that commands may write besides the workspace.
	Write []string `yaml:"write,omitempty"`
	// Levels are those that may be used, of native, bwrap and landlock; without the key all of them. With none
	// no command runs.
	Levels []string `yaml:"levels,omitempty"`
	// Env are variables of the node's environment that commands may see.
	Env []string `yaml:"env,omitempty"`
}

// sandboxPresets are what Preset may be.
var sandboxPresets = []string{"standard", "restrictive", "permissive", "off"}

func (s Sandbox) check(bad func(string, ...any)) {
	if !slices.Contains(sandboxPresets, s.Preset) {
		bad("sandbox.preset %q: write one of %v", s.Preset, sandboxPresets)
	}
	if _, ok := networks[s.Network]; !ok {
		bad("sandbox.network %q: write none, local or full", s.Network)
	}
	for _, l := range s.Levels {
		if _, ok := levels[l]; !ok {
			bad("sandbox.levels %q: write native, bwrap or landlock", l)
		}
	}
	for _, dir := range s.Write {
		if !filepath.IsAbs(dir) {
			bad("sandbox.write %q: it is no absolute path", dir)
		}
	}
}

var networks = map[string]sandbox.Network{"": 0, "none": sandbox.NetworkNone, "local": sandbox.NetworkLocal, "full": sandbox.NetworkFull}

var levels = map[string]sandbox.Level{"native": sandbox.Native, "bwrap": sandbox.Bwrap, "landlock": sandbox.Landlock}

// Allowed are the sandbox's levels that may be used: nil is all of them.
func (s Sandbox) Allowed() []sandbox.Level {
	if s.Preset == "off" {
		return []sandbox.Level{sandbox.Off}
	}
	if s.Levels == nil {
		return nil
	}
	allowed := []sandbox.Level{}
	for _, l := range s.Levels {
		allowed = append(allowed, levels[l])
	}
	return allowed
}

// Policy is what commands may do in a workspace.
func (s Sandbox) Policy(workspace string) (sandbox.Policy, error) {
	p, err := sandbox.Standard(workspace)
	if err != nil {
		return sandbox.Policy{}, fmt.Errorf("sandbox: %w", err)
	}
	write := p.Files.Write
	switch s.Preset {
	case "restrictive":
		p, write = sandbox.Restrictive(), nil
	case "permissive", "off":
		p = sandbox.Permissive()
		write = p.Files.Write
	}
	if len(s.Write) > 0 {
		more, err := sandbox.Custom(p.Files.Read, append(slices.Clone(write), s.Write...))
		if err != nil {
			return sandbox.Policy{}, fmt.Errorf("sandbox.write: %w", err)
		}
		p.Files.Write = more.Write
	}
	if s.Network != "" {
		p.Network = networks[s.Network]
	}
	p.Env = append(slices.Clone(p.Env), s.Env...)
	return p, nil
}
