// Package security holds, in one value, what an agent may do and what holds its commands.
//
// The one idea: the rules and the sandbox are chosen together, by a preset such as Standard.
// builtin.Config and agent.Order.WithSecurity take the same value: the first runs commands in its
// sandbox, the second judges calls by its rules.
package security

import (
	"context"
	"fmt"
	"strings"

	"symbio/agent/tool"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

// Handler asks a person about a call and waits for the answer. It must return when ctx ends.
// Terminal makes one.
type Handler func(ctx context.Context, d tool.Decision) tool.Answer

// Config is the security of an agent. The zero Config is Standard.
type Config struct {
	// Permissions are the rules. Their preset is standard unless they name another.
	Permissions permission.Config
	// Sandbox is what holds commands: a preset of sandbox.Preset, or off for nothing. Default:
	// standard.
	Sandbox string
	// Policy is what commands may do, in place of the preset's policy. nil = the preset.
	Policy *sandbox.Policy
	// Handler asks a person. nil = what has to be asked is denied.
	Handler Handler
}

// Standard lets an agent look around, asks about the rest, and lets commands write the working
// directory.
func Standard() Config { return known("standard") }

// Workspace lets an agent also change files of the working directory, by tools and by commands that the sandbox holds.
func Workspace() Config { return known("workspace") }

// Development lets an agent also write, use git and work with other agents. Bash runs without a
// sandbox, Git in the standard one.
func Development() Config { return known("development") }

// Restrictive lets an agent read below its working directory. Commands are denied, and would write
// nothing.
func Restrictive() Config { return known("restrictive") }

// ReadOnly lets an agent look around. Commands are denied, and would write nothing.
func ReadOnly() Config { return known("read_only") }

// presets are the sandboxes of the presets, by the name of the preset, which its rules have, too. The
// configuration of a node takes the same names.
var presets = []struct{ name, sandbox string }{
	{"standard", "standard"}, {"workspace", "standard"}, {"development", "off"}, {"restrictive", "restrictive"}, {"read_only", "restrictive"},
}

// Names are the presets that Preset knows.
func Names() (names []string) {
	for _, p := range presets {
		names = append(names, p.name)
	}
	return names
}

// Preset finds a preset by its name, in each of the spellings that permission.Preset takes. The error
// names those that there are.
func Preset(name string) (Config, error) {
	for _, p := range presets {
		if p.name == permission.PresetName(name) {
			return Config{Permissions: permission.Config{Preset: p.name}, Sandbox: p.sandbox}, nil
		}
	}
	return Config{}, fmt.Errorf("there is no security preset %q: write one of %s", name, strings.Join(Names(), ", "))
}

// known is Preset for a name of the table.
func known(name string) Config {
	c, _ := Preset(name)
	return c
}

// WithHandler returns the Config with another handler.
func (c Config) WithHandler(h Handler) Config {
	c.Handler = h
	return c
}

// Off reports whether commands run without a sandbox.
func (c Config) Off() bool { return c.Policy == nil && c.Sandbox == "off" }

// SandboxPolicy returns what commands may do in a working directory, which must exist.
func (c Config) SandboxPolicy(dir string) (sandbox.Policy, error) {
	if c.Policy != nil {
		return *c.Policy, nil
	}
	return sandbox.Preset(c.Sandbox, dir)
}
