package config

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"symbio/internal/security/secret"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

// Sandbox says what commands may do: those that agents run and those that
// answer calls of capabilities. The operating system enforces it. Only the
// user's own configuration sets it; a project, skill, model or other node
// cannot.
type Sandbox struct {
	// Preset is standard or work (may write to the workspace, has a network of
	// its own), look (sees the workspace and the system, changes nothing, no
	// network), restrictive (writes nothing, no network, no subprocesses),
	// permissive (the machine's network, all files that the user may write) or
	// off (no sandbox).
	Preset string `yaml:"preset,omitempty"`
	// Network is none, local (a network of its own, with loopback only) or
	// full; "" = the preset's.
	Network string `yaml:"network,omitempty"`
	// Write are directories that commands may write besides the workspace.
	Write []string `yaml:"write,omitempty"`
	// Hide are files and directories that commands cannot see. The places where
	// programs keep keys and passwords (package secret) and the state of nodes
	// are always hidden.
	Hide []string `yaml:"hide,omitempty"`
	// Show are hidden places that commands can see nevertheless, by their path
	// or of a directory above.
	Show []string `yaml:"show,omitempty"`
	// Sockets are the Unix sockets, such as /var/run/docker.sock, to which
	// commands may connect.
	Sockets []string `yaml:"sockets,omitempty"`
	// Scripts is the box of the scripts of skills: "" or look (they see their skill, and change nothing) or work (they have
	// the sandbox of commands, with the workspace).
	Scripts string `yaml:"scripts,omitempty"`
	// Levels are the mechanisms that may be used, of native, bwrap,
	// landlock and seatbelt. Without the key all may be used; with an empty list no command
	// can run.
	Levels []string `yaml:"levels,omitempty"`
	// Env are names of variables of the node's environment that commands get in
	// addition to the preset's.
	Env []string `yaml:"env,omitempty"`
}

// UnmarshalYAML reads a mapping, or the preset as one word: sandbox: look is {preset: look}.
func (s *Sandbox) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		return n.Decode(&s.Preset)
	}
	type mapping Sandbox
	known := map[string]bool{"<<": true}
	for field := range reflect.TypeFor[Sandbox]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		known[name] = true
	}
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		if key := n.Content[i]; !known[key.Value] { // as yaml.v3 says it, which knows no strictness in here
			return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: field %s not found in type config.Sandbox", key.Line, key.Value)}}
		}
	}
	return n.Decode((*mapping)(s))
}

// check reports the mistakes in the sandbox of a node.
func (s Sandbox) check(bad func(string, ...any)) {
	if !slices.Contains(sandbox.Presets(), s.Preset) {
		bad("sandbox.preset %q: write one of %v", s.Preset, sandbox.Presets())
	}
	if !slices.Contains([]string{"", "look", "work"}, s.Scripts) {
		bad("sandbox.scripts %q: write look or work", s.Scripts)
	}
	for _, l := range s.Levels {
		if _, ok := levels[l]; !ok {
			bad("sandbox.levels %q: write native, bwrap, landlock or seatbelt", l)
		}
	}
	s.checkCommon(bad)
}

// checkCapability reports the mistakes in the sandbox of one capability or MCP
// server. There levels and hide are not allowed: levels describes the machine,
// and hide protects against every command.
func (s Sandbox) checkCapability(bad func(string, ...any)) {
	if s.Preset != "" && !slices.Contains(sandbox.Presets(), s.Preset) {
		bad("sandbox.preset %q: write one of %v", s.Preset, sandbox.Presets())
	}
	if s.Levels != nil {
		bad("sandbox.levels is for the whole node; write it under the top-level key sandbox")
	}
	if s.Scripts != "" {
		bad("sandbox.scripts is for the skills of the whole node; write it under the top-level key sandbox")
	}
	if s.Hide != nil {
		bad("sandbox.hide is for the whole node; write it under the top-level key sandbox, and use show here for exceptions")
	}
	s.checkCommon(bad)
}

// checkCommon reports mistakes in the keys that both kinds of sandbox have.
func (s Sandbox) checkCommon(bad func(string, ...any)) {
	if _, ok := networks[s.Network]; !ok {
		bad("sandbox.network %q: write none, local or full", s.Network)
	}
	for key, paths := range map[string][]string{"write": s.Write, "hide": s.Hide, "show": s.Show, "sockets": s.Sockets} {
		for _, path := range paths {
			if !filepath.IsAbs(path) && path != "~" && !strings.HasPrefix(path, "~/") {
				bad("sandbox.%s %q: write an absolute path, or one that begins with ~/", key, path)
			}
		}
	}
	for _, path := range s.Show {
		below := strings.TrimPrefix(filepath.ToSlash(filepath.Clean(path)), "~/")
		if place := secret.In(below); place != "" && len(place) != len(below) {
			bad("sandbox.show %q: it is inside ~/%s; write that directory, because it can only be shown as a whole", path, place)
		}
	}
}

// Override returns the sandbox of one capability on a node with the sandbox s.
// own is the capability's; nil means that it has the node's. With a preset, own
// replaces s except for Levels and Hide, which protect the machine; without
// one, the keys that own has replace the keys of s.
func (s Sandbox) Override(own *Sandbox) Sandbox {
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

// networks maps the words of the key network to package sandbox. "" is the
// preset's network.
var networks = map[string]sandbox.Network{"": 0, "none": sandbox.NetworkNone, "local": sandbox.NetworkLocal, "full": sandbox.NetworkFull}

// levels maps the words of the key levels to package sandbox.
var levels = map[string]sandbox.Level{"native": sandbox.Native, "bwrap": sandbox.Bwrap, "landlock": sandbox.Landlock, "seatbelt": sandbox.Seatbelt}

// Unheld returns what the sandbox does not hold although the permissions count on it, as a clause, and how to mend that; ""
// if nothing.
func (c Config) Unheld() (why, mend string) {
	rules, err := c.Permissions.Policy()
	works := err == nil && slices.ContainsFunc(rules.Allow, func(r permission.Rule) bool { return r.String() == "Bash(box:work)" })
	switch {
	case c.Sandbox.IsOff():
		return "the configuration switches the sandbox off: commands that are allowed run with all that this user may do",
			"write security: workspace, which holds commands and does not ask about changes below the workspace"
	case works && (c.Sandbox.Network == "full" || c.Sandbox.Preset == "permissive"):
		return "commands that change files are asked about, although a rule allows them in the work box: the sandbox lets them do more than change the workspace",
			"leave out network: full and preset: permissive under sandbox; a command asks for the network when it needs it"
	}
	return "", ""
}

// IsOff reports whether commands run without a sandbox.
func (s Sandbox) IsOff() bool { return s.Preset == "off" }

// AllowedLevels returns the mechanisms that may be used. nil means all; an
// empty list means none.
func (s Sandbox) AllowedLevels() []sandbox.Level {
	if s.Levels == nil {
		return nil
	}
	allowed := []sandbox.Level{}
	for _, l := range s.Levels {
		allowed = append(allowed, levels[l])
	}
	return allowed
}

// HiddenPaths returns the paths of Hide. home replaces a leading ~.
func (s Sandbox) HiddenPaths(home string) []string { return expand(home, s.Hide) }

// expand replaces a leading ~ of each path by home. It returns a new list.
func expand(home string, paths []string) (all []string) {
	for _, p := range paths {
		if rest, ok := strings.CutPrefix(p, "~"); ok {
			p = home + rest
		}
		all = append(all, p)
	}
	return all
}

// WritablePaths returns the directories that commands may write in addition to
// the workspace. home replaces a leading ~.
func (s Sandbox) WritablePaths(home string) []string { return expand(home, s.Write) }

// Policy returns what a command in workspace may do, for package sandbox. home
// replaces a leading ~. An unknown preset and a writable path that package
// sandbox refuses are errors; Check finds the first, only the machine the
// second.
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
