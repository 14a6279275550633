package config

import (
	"path/filepath"

	"symbio/skills/format"
)

// SkillReading says which skills are found and how strictly they are read.
type SkillReading struct {
	Level        format.Level `yaml:"level"`         // strict, standard or lenient
	UnicodeNames bool         `yaml:"unicode_names"` // names of any script, not a-z alone
	// Markers are the files and directories that show the root of a repository, up to which the
	// directories above the workspace have skills of its own; none = .symbio, .git, .jj.
	Markers []string `yaml:"markers"`
	// How much of one directory of skills is searched: levels, directories without a skill, entries, skills.
	MaxDepth       int `yaml:"max_depth"`
	MaxDirectories int `yaml:"max_directories"`
	MaxEntries     int `yaml:"max_entries"`
	MaxSkills      int `yaml:"max_skills"`
}

// Policy is how a SKILL.md is read.
func (s SkillReading) Policy() format.Policy {
	return format.Policy{Level: s.Level, UnicodeNames: s.UnicodeNames}
}

func (s SkillReading) check(bad func(format string, args ...any)) {
	for key, n := range map[string]int{"max_depth": s.MaxDepth, "max_directories": s.MaxDirectories, "max_entries": s.MaxEntries, "max_skills": s.MaxSkills} {
		if n < 1 {
			bad("skills.%s has to be above 0", key)
		}
	}
	for _, m := range s.Markers {
		if m == "" || filepath.Base(m) != m || m == "." || m == ".." {
			bad("skills.markers: %q is not the name of a file or directory", m)
		}
	}
}
