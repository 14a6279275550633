package sandbox

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"
)

// Portable is a restriction of commands that makes sense on another machine: of its files it names
// the workspace alone. It only restricts. The zero Portable leaves the least. Its JSON is what nodes
// send each other.
type Portable struct {
	// Network is none, local or full.
	Network string `json:"network"`
	// Read and Write are none, workspace or all.
	Read  string `json:"read"`
	Write string `json:"write"`
	// Temp, Subprocess and Unprotected are those of a Policy.
	Temp        bool `json:"temp,omitempty"`
	Subprocess  bool `json:"subprocess,omitempty"`
	Unprotected bool `json:"unprotected,omitempty"`
	// Shown and Sockets leave commands the hidden files and the Unix sockets that the machine gives them.
	Shown   bool `json:"shown,omitempty"`
	Sockets bool `json:"sockets,omitempty"`
	// Env names the variables that are left of those that the machine gives commands; AnyEnv leaves all.
	Env    []string `json:"env,omitempty"`
	AnyEnv bool     `json:"any_env,omitempty"`
	Limits Limits   `json:"limits"`
}

const (
	noFiles, workspaceFiles, allFiles = "none", "workspace", "all"

	// unlimited is a limit that takes nothing; the largest that every reader of JSON reads exactly.
	unlimited = 1<<53 - 1
	// maxPortableEnv bounds the variables of a Portable, maxEnvName the bytes of each name.
	maxPortableEnv, maxEnvName = 256, 256
)

// Describe returns what a constraint for commands in the directory dir leaves of a policy that allows
// everything. env are all variables that it may name. The error says what has no meaning on another
// machine, such as a directory outside of the workspace.
func Describe(constrain func(Policy) Policy, dir string, env []string) (Portable, error) {
	const other = "\x00" // stands for each socket and variable that the constraint does not name
	all := Permissive()
	all.Env, all.Files.Sockets, all.Files.Show = append(slices.Clone(env), other), []string{other}, []string{"/"}
	all.Limits = Limits{unlimited, unlimited, math.MaxInt32, math.MaxInt32, unlimited}
	p := constrain(all)
	out := Portable{
		Network: p.Network.String(), Temp: p.Files.Temp, Subprocess: p.Subprocess, Unprotected: p.Unprotected,
		Shown: slices.Contains(p.Files.Show, "/"), Sockets: slices.Contains(p.Files.Sockets, other), Limits: p.Limits,
	}
	if out.AnyEnv = slices.Contains(p.Env, other); !out.AnyEnv {
		out.Env = p.Env
	}
	var problems [3]error
	out.Read, problems[0] = describePaths("read", slices.Concat(p.Files.Read, p.Files.Write), dir)
	out.Write, problems[1] = describePaths("write", p.Files.Write, dir)
	if d := p.Files.Denied; len(d.Hidden)+len(d.ReadOnly)+len(d.Fixed)+len(d.Unknown) > 0 {
		problems[2] = errors.New("some files are kept from commands by their names")
	}
	return out, errors.Join(problems[:]...)
}

// describePaths returns none, workspace or all for the paths that commands may read or write.
func describePaths(may string, paths []string, dir string) (string, error) {
	if len(paths) == 0 {
		return noFiles, nil
	}
	if slices.Contains(paths, "/") {
		return allFiles, nil
	}
	if at, err := resolve(dir); err == nil && slices.ContainsFunc(paths, func(p string) bool { return within(at, p) }) {
		return workspaceFiles, nil
	}
	return "", fmt.Errorf("commands may %s only %q, which are no places of another machine; the whole workspace, or nothing, would be", may, paths)
}

// Constraint returns the restriction as a function of a machine's policy for commands whose workspace
// is dir. The error says what in it cannot be understood, or that dir cannot be found.
func (p Portable) Constraint(dir string) (func(Policy) Policy, error) {
	network := slices.Index([]string{"none", "local", "full"}, p.Network)
	read, err := pathsFor(p.Read, dir)
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	write, err := pathsFor(p.Write, dir)
	if err != nil {
		return nil, fmt.Errorf("write: %w", err)
	}
	l := p.Limits
	switch {
	case network < 0:
		return nil, fmt.Errorf("network: %.40q is not none, local or full", p.Network)
	case min(int64(l.CPU), l.FileSize, int64(l.OpenFiles), int64(l.Processes), l.Memory) < 0:
		return nil, errors.New("limits: a number is negative")
	case len(p.Env) > maxPortableEnv || slices.ContainsFunc(p.Env, func(name string) bool { return len(name) > maxEnvName }):
		return nil, errors.New("env: it is too long")
	}
	only := Policy{
		Files: Files{Read: read, Write: write, Temp: p.Temp}, Network: Network(network), Subprocess: p.Subprocess, Unprotected: p.Unprotected,
		Limits: Limits{min(l.CPU, time.Duration(unlimited)), l.FileSize, l.OpenFiles, l.Processes, l.Memory},
	}
	return func(machine Policy) Policy {
		only := only
		if only.Env = p.Env; p.AnyEnv {
			only.Env = machine.Env
		}
		if p.Sockets {
			only.Files.Sockets = machine.Files.Sockets
		}
		if p.Shown {
			only.Files.Show = machine.Files.Show
		}
		return Meet(machine, only)
	}, nil
}

// pathsFor returns the paths that none, workspace or all mean where dir is the workspace.
func pathsFor(what, dir string) ([]string, error) {
	switch what {
	case noFiles:
		return nil, nil
	case allFiles:
		return []string{string(filepath.Separator)}, nil
	case workspaceFiles:
		at, err := resolve(dir)
		if err != nil {
			return nil, errors.New("there is no workspace")
		}
		return []string{at}, nil
	}
	return nil, fmt.Errorf("%.40q is not none, workspace or all", what)
}
