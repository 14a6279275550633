package skills

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"symbio/internal/skills/walk"
	"symbio/security/permission"
)

// NetworkRule is the rule that a skill asks for so that its scripts get the network that commands
// have. It allows no call.
const NetworkRule = "run_skill_script(network)"

// Script is a program of an active skill that may run.
type Script struct {
	Dir        string // of the skill, without links
	Path       string // of the program
	Executable bool   // its mode lets the user execute it
	Network    bool   // the skill has been granted NetworkRule
}

// Script returns a file of scripts/ of a skill that is active for the agent, if a person trusts the
// skill and its SKILL.md has not changed since the activation. name is a label as Active returns it,
// and script a path in scripts/. It looks at the disk and does not wait for the actor.
func (r *Registry) Script(agent, name, script string) (Script, error) {
	s, err := r.scriptGrant(agent, name)
	var found Script
	if err == nil {
		found, err = s.skillDir.script(script)
	}
	if err != nil {
		return Script{}, fmt.Errorf("run %q of skill %q: %w", script, name, err)
	}
	found.Network = slices.ContainsFunc(s.rules, func(r permission.Rule) bool { return r.String() == NetworkRule })
	return found, nil
}

// scriptGrant returns what an active skill grants, if its scripts may run.
func (r *Registry) scriptGrant(agent, name string) (*grant, error) {
	g := r.of(agent)
	if g == nil {
		return nil, ErrNotActive
	}
	i := slices.IndexFunc(g.grants, func(s *grant) bool { return s.label == name })
	if i < 0 {
		return nil, ErrNotActive
	}
	s := g.grants[i]
	if !s.skillDir.inPlace() {
		return nil, errors.New("its directory is not on the disk, or was moved")
	}
	if !s.trusted || s.ended.Load() || !s.valid() {
		return nil, errors.New("no person trusts it as it is now; `symbio skills trust` shows it, and then it has to be activated again")
	}
	return s, nil
}

// script returns a file of scripts/. No path and no link leads out of the directory.
func (d skillDir) script(name string) (Script, error) {
	if !fs.ValidPath(name) || name == "." {
		return Script{}, errors.New("the path must lead down from scripts/")
	}
	root, err := os.OpenRoot(d.canonical)
	if err != nil {
		return Script{}, err
	}
	defer root.Close()
	rel := filepath.Join("scripts", filepath.FromSlash(name))
	info, err := root.Stat(rel)
	if err != nil {
		return Script{}, walk.Reason(err)
	}
	if !info.Mode().IsRegular() {
		return Script{}, errors.New("it is " + kindOfFile(info.Mode()))
	}
	return Script{Dir: d.canonical, Path: filepath.Join(d.canonical, rel), Executable: info.Mode()&0o100 != 0}, nil
}
