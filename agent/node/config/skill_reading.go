package config

import (
	"path/filepath"
	"slices"
	"strings"

	"symbio/security/permission"
	"symbio/skills"
	"symbio/skills/format"
)

// SkillReading says which files are found as skills and how strictly they are
// parsed.
type SkillReading struct {
	Level format.Level `yaml:"level"` // strict, standard or lenient
	// Levels are the levels of the skills in and below directories, in place of Level.
	Levels       map[string]format.Level `yaml:"levels"`
	UnicodeNames bool                    `yaml:"unicode_names"` // names with letters of any script, not only a-z
	Compat       []string                `yaml:"compat"`        // other agent programs whose directories are searched: claude, codex, github
	// Markers are names of files and directories that mark the root of a
	// repository. Skills of the directories between the workspace and that root
	// are the repository's own. An empty list means .symbio, .git and .jj.
	Markers []string `yaml:"markers"`
	// The limits of the search below one directory of skills. A directory that
	// was configured by mistake, such as a home directory, must not delay the
	// start of a node.
	MaxDepth       int `yaml:"max_depth"`       // levels below the directory
	MaxDirectories int `yaml:"max_directories"` // directories without a skill
	MaxEntries     int `yaml:"max_entries"`     // files and directories read
	MaxSkills      int `yaml:"max_skills"`      // skills found
	// Toolsets are permission rules by a name. A skill with that name in its
	// field toolsets asks for them, as for the rules of allowed-tools.
	Toolsets map[string][]string `yaml:"toolsets"`
}

// Policy returns the rules for reading a SKILL.md.
func (s SkillReading) Policy() format.Policy {
	levels := map[string]format.Level{}
	for dir, level := range s.Levels {
		levels[dir] = level
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			levels[real] = level
		}
	}
	return format.Policy{Level: s.Level, Levels: levels, UnicodeNames: s.UnicodeNames, Toolsets: s.Toolsets}
}

// resolve calls makeAbsolute with each directory of the levels.
func (s *SkillReading) resolve(makeAbsolute func(*string)) {
	levels := map[string]format.Level{}
	for dir, level := range s.Levels {
		makeAbsolute(&dir)
		levels[filepath.Clean(dir)] = level
	}
	s.Levels = levels
}

// check reports limits below 1, markers that are paths and rules that cannot be
// read.
func (s SkillReading) check(bad func(format string, args ...any)) {
	for key, n := range map[string]int{"max_depth": s.MaxDepth, "max_directories": s.MaxDirectories, "max_entries": s.MaxEntries,
		"max_skills": s.MaxSkills} {
		if n < 1 {
			bad("skills.%s has to be above 0", key)
		}
	}
	known := skills.CompatNames()
	if i := slices.IndexFunc(s.Compat, func(name string) bool { return !slices.Contains(known, name) }); i >= 0 {
		bad("skills.compat: %q is none of %s", s.Compat[i], strings.Join(known, ", "))
	}
	for name, rules := range s.Toolsets {
		for _, r := range rules {
			if _, err := permission.ParseRule(r); err != nil {
				bad("skills.toolsets.%s: %w", name, err)
			}
		}
	}
	for _, m := range s.Markers {
		if m == "" || filepath.Base(m) != m || m == "." || m == ".." {
			bad("skills.markers: %q is not the name of a file or directory; write one without slashes, such as .git", m)
		}
	}
}
