package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"symbio/security/sandbox"
	"symbio/security/secret"
)

// Sandbox says what the commands may do that agents run and that capabilities are, and that the operating system holds
// them to it. It is the user's own choice: no project, skill, model or other node changes it (security.md 3.7).
type Sandbox struct {
	// Preset is standard (the workspace is written, a network of the command's own), restrictive (nothing is
	// written, no network, no further programs), permissive (the machine's network, all files that the user
	// may write) or off (no sandbox at all).
	Preset string `yaml:"preset,omitempty"`
	// Network is none, local (a network of the command's own) or full; "" = the preset's.
	Network string `yaml:"network,omitempty"`
	// Write are directories that commands may write besides the workspace.
	Write []string `yaml:"write,omitempty"`
	// Hide are files and directories that commands do not see, beside those in which programs keep keys and passwords
	// (package secret) and what nodes keep.
	Hide []string `yaml:"hide,omitempty"`
	// Show are those of them that commands see all the same, each by its name or that of a directory above it.
	Show []string `yaml:"show,omitempty"`
	// Sockets are Unix sockets of the machine, such as /var/run/docker.sock, to which commands connect; to no others.
	Sockets []string `yaml:"sockets,omitempty"`
	// Levels are those that may be used, of native, bwrap and landlock; without the key all of them. With none
	// no command runs.
	Levels []string `yaml:"levels,omitempty"`
	// Env are variables of the node's environment that commands may see.
	Env []string `yaml:"env,omitempty"`
}

func (s Sandbox) check(bad func(string, ...any)) {
	if !slices.Contains(sandbox.Presets(), s.Preset) {
		bad("sandbox.preset %q: write one of %v", s.Preset, sandbox.Presets())
	}
	for _, l := range s.Levels {
		if _, ok := levels[l]; !ok {
			bad("sandbox.levels %q: write native, bwrap or landlock", l)
		}
	}
	s.checkRest(bad)
}

// checkOwn is check for the sandbox of one capability.
func (s Sandbox) checkOwn(bad func(string, ...any)) {
	if s.Preset != "" && !slices.Contains(sandbox.Presets(), s.Preset) {
		bad("sandbox.preset %q: write one of %v", s.Preset, sandbox.Presets())
	}
	if s.Levels != nil {
		bad("sandbox.levels is what this machine is to use, and stands in the sandbox of the node alone")
	}
	if s.Hide != nil {
		bad("sandbox.hide stands in the sandbox of the node alone: hidden is hidden, but from what has it under show")
	}
	s.checkRest(bad)
}

func (s Sandbox) checkRest(bad func(string, ...any)) {
	if _, ok := networks[s.Network]; !ok {
		bad("sandbox.network %q: write none, local or full", s.Network)
	}
	for key, paths := range map[string][]string{"write": s.Write, "hide": s.Hide, "show": s.Show, "sockets": s.Sockets} {
		for _, path := range paths {
			if !filepath.IsAbs(path) && path != "~" && !strings.HasPrefix(path, "~/") {
				bad("sandbox.%s %q: it is no absolute path, and does not begin with ~/", key, path)
			}
		}
	}
	for _, path := range s.Show {
		below := strings.TrimPrefix(filepath.ToSlash(filepath.Clean(path)), "~/")
		if place := secret.In(below); place != "" && len(place) != len(below) {
			bad("sandbox.show %q: it lies in ~/%s, which is shown as a whole or not at all", path, place)
		}
	}
}

// Over is the sandbox of a capability, where s is the node's.
func (s Sandbox) Over(own *Sandbox) Sandbox {
	if own == nil {
		return s
	}
	if own.Preset != "" {
		alone := *own
		alone.Levels, alone.Hide = s.Levels, s.Hide
		return alone
	}
	if own.Network != "" {
		s.Network = own.Network
	}
	for _, list := range []struct{ own, whole *[]string }{{&own.Write, &s.Write}, {&own.Env, &s.Env}, {&own.Show, &s.Show}, {&own.Sockets, &s.Sockets}} {
		if *list.own != nil {
			*list.whole = *list.own
		}
	}
	return s
}

var networks = map[string]sandbox.Network{"": 0, "none": sandbox.NetworkNone, "local": sandbox.NetworkLocal, "full": sandbox.NetworkFull}

var levels = map[string]sandbox.Level{"native": sandbox.Native, "bwrap": sandbox.Bwrap, "landlock": sandbox.Landlock}

// Off says that commands are not held at all.
func (s Sandbox) Off() bool { return s.Preset == "off" }

// Allowed are the sandbox's levels that may be used for what is held: nil is all of them.
func (s Sandbox) Allowed() []sandbox.Level {
	if s.Levels == nil {
		return nil
	}
	allowed := []sandbox.Level{}
	for _, l := range s.Levels {
		allowed = append(allowed, levels[l])
	}
	return allowed
}

// Hidden are the paths of Hide, absolute. home is what ~ means.
func (s Sandbox) Hidden(home string) []string { return expand(home, s.Hide) }

func expand(home string, paths []string) (all []string) {
	for _, p := range paths {
		if rest, ok := strings.CutPrefix(p, "~"); ok {
			p = home + rest
		}
		all = append(all, p)
	}
	return all
}

// Writes are the directories beside the workspace that commands may write.
func (s Sandbox) Writes(home string) []string { return expand(home, s.Write) }

// Policy is what commands may do in a workspace. home is what ~ means.
func (s Sandbox) Policy(workspace, home string) (sandbox.Policy, error) {
	p, err := sandbox.Preset(s.Preset, workspace)
	if err != nil {
		return sandbox.Policy{}, fmt.Errorf("sandbox: %w", err)
	}
	if len(s.Write) > 0 {
		more, err := sandbox.Custom(p.Files.Read, append(slices.Clone(p.Files.Write), expand(home, s.Write)...))
		if err != nil {
			return sandbox.Policy{}, fmt.Errorf("sandbox.write: %w", err)
		}
		p.Files.Write = more.Write
	}
	if s.Network != "" {
		p.Network = networks[s.Network]
	}
	p.Files.Show, p.Files.Sockets = expand(home, s.Show), expand(home, s.Sockets)
	p.Env = append(slices.Clone(p.Env), s.Env...)
	return p, nil
}
