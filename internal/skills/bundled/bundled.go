// Package bundled holds the skills that are shipped inside the program.
//
// The one idea: a directory here with a SKILL.md is a skill of scope bundled. It has no directory on
// the disk, so all that an agent needs to know stands in the SKILL.md itself.
//
// It guarantees nothing by itself: package skills reads these like any other, and a test holds that
// each is valid at level strict.
package bundled

import (
	"embed"
	"io/fs"
)

//go:embed */SKILL.md
var files embed.FS

// FS returns the bundled skills, a directory each, for skills.Config.Bundled.
func FS() fs.FS { return files }
