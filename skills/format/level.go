package format

import (
	"fmt"
	"path/filepath"
	"slices"
)

// Level is how strictly a SKILL.md must follow the specification.
type Level int

const (
	// Standard repairs values that are not quite YAML, keeps unknown fields, and refuses the rest.
	Standard Level = iota
	// Strict is the specification to the letter: exactly its six fields, no repair.
	Strict
	// Lenient loads whatever has a description and a name that is safe in a path, with warnings.
	Lenient
)

// ParseLevel reads the name of a level. With an error it returns Strict, the safe value.
func ParseLevel(s string) (Level, error) {
	for _, l := range []Level{Standard, Strict, Lenient} {
		if l.String() == s {
			return l, nil
		}
	}
	return Strict, fmt.Errorf("level %q is none of strict, standard, lenient", s)
}

// UnmarshalText is ParseLevel.
func (l *Level) UnmarshalText(text []byte) (err error) {
	*l, err = ParseLevel(string(text))
	return err
}

// MarshalText writes the level's name.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// String returns the name of the level.
func (l Level) String() string {
	return [...]string{Standard: "standard", Strict: "strict", Lenient: "lenient"}[l]
}

// Policy is how skills are read. The zero value is level Standard.
type Policy struct {
	Level Level
	// WideGrants lets a skill ask for every command (Bash, Bash(*)) and for every tool (*). It is
	// for a user's own setting alone. Default false: such rules are refused.
	WideGrants bool
	// Toolsets are the rules that skills ask for by a name, from the user's own configuration. They
	// are granted as the rules of allowed-tools are. Nothing may change the map.
	Toolsets map[string][]string
	// Levels are the levels of the skills in and below directories, in place of Level. Nothing may change the map.
	Levels map[string]Level
}

// In returns the policy for the skill in a directory, which links can give several paths: the innermost directory of
// Levels that has it counts, of several the strictest.
func (p Policy) In(paths ...string) Policy {
	innermost := ""
	for dir, level := range p.Levels {
		has := func(path string) bool {
			rel, err := filepath.Rel(dir, path)
			return err == nil && filepath.IsLocal(rel)
		}
		inner := len(dir) > len(innermost) || len(dir) == len(innermost) && (level == Strict || p.Level == Lenient)
		if inner && slices.ContainsFunc(paths, has) {
			innermost, p.Level = dir, level
		}
	}
	return p
}
