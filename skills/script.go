package skills

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"symbio/security/permission"
	"symbio/skills/walk"
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
	refuse := func(why any) (Script, error) {
		return Script{}, fmt.Errorf("run %q of skill %q: %v", script, name, why)
	}
	g := r.of(agent)
	if g == nil {
		return refuse(ErrNotActive)
	}
	i := slices.IndexFunc(g.grants, func(s *grant) bool { return s.label == name })
	if i < 0 {
		return refuse(ErrNotActive)
	}
	s := g.grants[i]
	switch dir, err := filepath.EvalSymlinks(s.skillDir.dir); {
	case s.skillDir == (skillDir{}) || err != nil || dir != s.skillDir.canonical:
		return refuse("its directory is not on the disk, or was moved")
	case !s.trusted || s.ended.Load() || !s.valid():
		return refuse("no person trusts it as it is now; `symbio skills trust` shows it, and then it has to be activated again")
	}
	rel := path.Join("scripts", path.Clean("/"+filepath.ToSlash(script)))
	if !filepath.IsLocal(script) || slices.Contains(strings.Split(filepath.ToSlash(script), "/"), "..") || rel == "scripts" {
		return refuse("the path must lead down from scripts/")
	}
	info, err := s.skillDir.stat(rel)
	switch {
	case err != nil:
		return refuse(walk.Reason(err))
	case !info.Mode().IsRegular():
		return refuse("it is " + kindOfFile(info.Mode()))
	}
	network := slices.ContainsFunc(s.rules, func(r permission.Rule) bool { return r.String() == NetworkRule })
	return Script{s.skillDir.canonical, filepath.Join(s.skillDir.canonical, filepath.FromSlash(rel)), info.Mode()&0o100 != 0, network}, nil
}

// stat describes a file of the directory. Links lead nowhere else.
func (d skillDir) stat(rel string) (fs.FileInfo, error) {
	root, err := os.OpenRoot(d.canonical)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.Stat(filepath.FromSlash(rel))
}
