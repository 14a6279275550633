package skills

import (
	"io/fs"

	"symbio/internal/skills/walk"
	"symbio/skills/format"
)

// inlinePrefix begins the paths of skills that a program made. They are not paths on the disk.
const inlinePrefix = "inline:"

// Inline makes a skill of files in memory: a SKILL.md and the files beside it. The skill's name is
// the one in the SKILL.md. The skill belongs to the program, so its grants need no trust. The error
// is a *LoadError.
func Inline(files fs.FS, policy format.Policy) (Skill, error) {
	r := readFiles(files, inlinePrefix, "", policy, false)
	if err := r.err(); err != nil {
		return Skill{}, err
	}
	at := inlinePrefix + r.skill.Name
	r.skill.ID, r.skill.Dir, r.skill.Path = idOf(at), at, at+"/"+walk.FileName
	return r.skill, nil
}

// readFiles reads the skill at the top of files. at is its path for people. dirName is the
// directory name that the skill's name must equal, "" for no check.
func readFiles(files fs.FS, at, dirName string, policy format.Policy, whole bool) loadResult {
	r := loadResult{skill: Skill{ID: idOf(at), Dir: at, Path: at + "/" + walk.FileName, Scope: ScopeBundled, files: files}}
	f, err := files.Open(walk.FileName)
	if err != nil {
		r.openFailed(err)
		return r
	}
	defer f.Close()
	r.read(f, dirName, policy, whole)
	r.skill.putResources(resourcesIn(files))
	return r
}
