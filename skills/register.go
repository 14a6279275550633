package skills

import (
	"context"
	"fmt"
	"io/fs"
	"path"

	"symbio/skills/format"
)

// inlinePrefix marks the paths of skills that a program made.
const inlinePrefix = "inline:"

// Inline makes a skill of files in memory: a SKILL.md, and what lies beside it. Its name is that of the
// SKILL.md. It is the program's own and may grant. The error is a *LoadError.
func Inline(files fs.FS, policy format.Policy) (Skill, error) {
	r := readFiles(files, inlinePrefix, "", policy, false)
	if err := r.err(); err != nil {
		return Skill{}, err
	}
	at := inlinePrefix + r.skill.Name
	r.skill.ID, r.skill.Dir, r.skill.Path = idOf(at), at, at+"/"+fileName
	return r.skill, nil
}

// readFiles reads the skill that lies at the top of files.
func readFiles(files fs.FS, at, dirName string, policy format.Policy, whole bool) reading {
	r := reading{skill: Skill{ID: idOf(at), Dir: at, Path: at + "/" + fileName, Scope: ScopeBundled, files: files}}
	f, err := files.Open(fileName)
	if err != nil {
		r.openFailed(err)
		return r
	}
	defer f.Close()
	r.read(f, dirName, policy, whole)
	r.skill.setResources(func(name string) bool {
		info, err := fs.Stat(files, path.Clean(name))
		return err == nil && info.IsDir()
	})
	return r
}

// Register adds skills beside those that a scan finds: of Load, or of Inline. They stay until they are
// unregistered, over every Rescan. All or none: ErrAlreadyExists when a skill with one of the paths is
// there. A name may be there already; see Config.Duplicates.
func (r *Registry) Register(ctx context.Context, skills ...Skill) error {
	_, err := ask[Catalog](ctx, r, register{skills, false})
	return err
}

// Replace is Register over skills that may be there.
func (r *Registry) Replace(ctx context.Context, skills ...Skill) error {
	_, err := ask[Catalog](ctx, r, register{skills, true})
	return err
}

// Unregister removes a skill from the catalog, named as in Take, takes it back from all agents that have
// it, and returns it. One that a scan found stays out until it is registered.
func (r *Registry) Unregister(ctx context.Context, name string) (Skill, error) {
	return ask[Skill](ctx, r, unregister{name})
}

type (
	register struct {
		skills  []Skill
		replace bool
	}
	unregister struct{ name string }
)

func (s *shelf) register(m register) error {
	taken := map[string]bool{}
	for _, have := range s.catalog.Skills {
		taken[have.ID] = true
	}
	for _, add := range m.skills {
		switch {
		case add.ID == "" || add.Path == "":
			return fmt.Errorf("register %q: %w: it is neither of Load nor of Inline", add.Name, ErrInvalid)
		case taken[add.ID] && !m.replace:
			return fmt.Errorf("register %s: %w: %s", add.Name, ErrAlreadyExists, add.Path)
		}
		taken[add.ID] = true
	}
	for _, add := range m.skills {
		s.own[add.ID] = add
		delete(s.out, add.ID)
	}
	s.known = false // what is in memory has no version to compare
	s.assemble("registered")
	return nil
}

func (s *shelf) unregister(name string) (Skill, error) {
	skill, err := s.catalog.Resolve(name, s.cfg.Duplicates)
	if err != nil {
		return Skill{}, err
	}
	delete(s.own, skill.ID)
	s.out[skill.ID] = true
	s.takeBack(func(a active) bool { return a.skill.ID == skill.ID }, "unregistered")
	s.assemble("unregistered")
	return skill, nil
}
