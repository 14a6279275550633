package sandbox

import (
	"errors"
	"fmt"
	"slices"
)

// Portable is a Policy that restricts commands on another machine. Of files it names "/" and the
// workspace, and of the hidden files, the sockets and the variables that a machine gives commands all
// or none. It is what nodes send each other as JSON: what is not sent is not allowed, and a field that
// a node does not know is refused there.
type Portable Policy

const (
	portableWorkspace = "workspace"
	portableAll       = "/"
	// unlimited is a limit that takes nothing, and fits into every number.
	unlimited = 1<<31 - 1
)

// Describe returns what a constraint for commands in the directory dir leaves of a policy that allows
// everything. A constraint that names variables or sockets leaves none. The error says what has no
// meaning on another machine, such as a directory outside of the workspace.
func Describe(constrain func(Policy) Policy, dir string) (Portable, error) {
	p := Permissive()
	p.Env, p.Files.Sockets, p.Files.Show = []string{portableAll}, []string{portableAll}, []string{portableAll}
	p.Limits = Limits{unlimited << 20, unlimited << 20, unlimited, unlimited, unlimited << 20}
	p = constrain(p)
	var problems [3]error
	p.Files.Read, problems[0] = describePaths("read", slices.Concat(p.Files.Read, p.Files.Write), dir)
	p.Files.Write, problems[1] = describePaths("write", p.Files.Write, dir)
	if d := p.Files.Denied; len(d.Hidden)+len(d.ReadOnly)+len(d.Fixed)+len(d.Unknown) > 0 {
		problems[2] = errors.New("some files are kept from commands by their names")
	}
	return Portable(p), errors.Join(problems[:]...)
}

// describePaths returns what the paths that commands may read or write are called in a Portable.
func describePaths(may string, paths []string, dir string) ([]string, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	if slices.Contains(paths, portableAll) {
		return []string{portableAll}, nil
	}
	if at, err := resolve(dir); err == nil && anyAround(at, paths) {
		return []string{portableWorkspace}, nil
	}
	return nil, fmt.Errorf("commands may %s only %q, which are no places of another machine; the whole workspace, or nothing, would be", may, paths)
}

// Constraint returns the restriction as a function of a machine's policy for commands whose workspace
// is dir. The error says what in it cannot be understood, or that dir cannot be found.
func (p Portable) Constraint(dir string) (func(Policy) Policy, error) {
	if p.Network < NetworkNone || p.Network > NetworkFull {
		return nil, fmt.Errorf("network %d is not known", p.Network)
	}
	at, err := resolve(dir)
	p.Files.Read, p.Files.Write = slices.Clone(p.Files.Read), slices.Clone(p.Files.Write)
	for _, paths := range [][]string{p.Files.Read, p.Files.Write} {
		for i, path := range paths {
			switch {
			case path == portableAll:
			case path != portableWorkspace:
				return nil, fmt.Errorf("%.40q is no place of this machine", path)
			case err != nil:
				return nil, errors.New("there is no workspace")
			default:
				paths[i] = at
			}
		}
	}
	return func(machine Policy) Policy {
		only := Policy(p)
		for _, list := range []struct{ mine, machines *[]string }{{&only.Env, &machine.Env}, {&only.Files.Sockets, &machine.Files.Sockets},
			{&only.Files.Show, &machine.Files.Show}} {
			if slices.Contains(*list.mine, portableAll) {
				*list.mine = *list.machines
			}
		}
		return Meet(machine, only)
	}, nil
}
