package skills

import (
	"io/fs"
	"path"

	"symbio/skills/format"
	"symbio/skills/walk"
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
	r.skill.ID, r.skill.Dir, r.skill.Path = idOf(at), at, at+"/"+walk.FileName
	return r.skill, nil
}

// readFiles reads the skill that lies at the top of files.
func readFiles(files fs.FS, at, dirName string, policy format.Policy, whole bool) reading {
	r := reading{skill: Skill{ID: idOf(at), Dir: at, Path: at + "/" + walk.FileName, Scope: ScopeBundled, files: files}}
	f, err := files.Open(walk.FileName)
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
