package config

import (
	"path/filepath"
	"slices"
	"strings"

	"symbio/agent/tool/skill"
	"symbio/security/permission"
	"symbio/skills"
	"symbio/skills/format"
)

// Skills says where skills are searched, how they are read, and how agents use
// them. The limits of the search, the form of the catalog and the marks of a
// repository's root are constants of package skills: nobody has a reason to
// turn them.
type Skills struct {
	Enabled  bool     `yaml:"enabled"`
	Discover bool     `yaml:"discover"` // search the standard directories
	Compat   []string `yaml:"compat"`   // other agent programs whose directories are searched: claude, codex, github
	Dirs     []string `yaml:"dirs"`     // more directories
	// Share selects the skills of this node's disk that other nodes may fetch.
	// Rules under authorize apply as well.
	Share Share `yaml:"share"`
	// Registry is the node whose shared skills this node has, too.
	Registry SkillRegistry `yaml:"registry"`
	// WideGrants lets skills ask for every command (Bash) and every tool (*).
	WideGrants bool `yaml:"wide_grants"`
	// Choices has disabled and overrides: who may activate a skill. The keys
	// are names or paths of skills.
	skills.Choices `yaml:",inline"`
	// Tools are the tools for skills that agents have.
	Tools   []string      `yaml:"tools"`
	Initial SkillsInitial `yaml:"initial"`
	// MaxActive is the number of skills that one agent may have active at once.
	MaxActive int `yaml:"max_active"`
	// GrantTTL says how long the permissions granted by a skill last: session
	// or turn.
	GrantTTL skills.GrantTTL `yaml:"grant_ttl"`
	// OnUnknown says what happens when a definition names a skill that does not
	// exist: warn or error.
	OnUnknown string `yaml:"on_unknown"`
	// Levels say how strictly the skills in and below directories are read:
	// strict, standard or lenient. The others are read at standard.
	Levels map[string]format.Level `yaml:"levels"`
	// Toolsets are permission rules by a name. A skill with that name in its
	// field toolsets asks for them, as for those of allowed-tools.
	Toolsets map[string][]string `yaml:"toolsets"`
}

// SkillsInitial bounds the part of the catalog that stands in a system prompt.
// Models find the rest with skill_search.
type SkillsInitial struct {
	MaxEntries int `yaml:"max_entries"`
	MaxBytes   int `yaml:"max_bytes"`
}

// defaultSkills returns the defaults. The numbers are the numbers of package skills,
// which says why.
func defaultSkills() Skills {
	return Skills{
		Enabled: true, Discover: true, Tools: skill.Default(), Initial: SkillsInitial{MaxEntries: 200, MaxBytes: 32 << 10},
		MaxActive: 16, GrantTTL: skills.GrantSession, OnUnknown: "warn",
	}
}

// Policy returns the rules for reading a SKILL.md.
func (s Skills) Policy() format.Policy {
	levels := map[string]format.Level{}
	for dir, level := range s.Levels {
		levels[dir] = level
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			levels[real] = level
		}
	}
	return format.Policy{Levels: levels, WideGrants: s.WideGrants, Toolsets: s.Toolsets}
}

// resolve calls makeAbsolute with each directory, and with each key of the
// choices that is a path. Paths contain a slash, names do not; a key that begins
// with "bundled:" names a skill inside the program.
func (s *Skills) resolve(makeAbsolute func(*string)) {
	for i := range s.Dirs {
		makeAbsolute(&s.Dirs[i])
	}
	levels := map[string]format.Level{}
	for dir, level := range s.Levels {
		makeAbsolute(&dir)
		levels[filepath.Clean(dir)] = level
	}
	s.Levels = levels
	isPath := func(key string) bool { return strings.ContainsRune(key, '/') && !strings.HasPrefix(key, "bundled:") }
	for i := range s.Disabled {
		if isPath(s.Disabled[i]) {
			makeAbsolute(&s.Disabled[i])
		}
	}
	overrides := map[string]skills.Exposure{}
	for name, e := range s.Overrides {
		if isPath(name) {
			makeAbsolute(&name)
		}
		overrides[name] = e
	}
	if s.Overrides != nil {
		s.Overrides = overrides
	}
}

// check reports unknown words, rules that cannot be read, and numbers below 1.
func (s Skills) check(bad func(string, ...any)) {
	if err := s.Choices.Check(); err != nil {
		bad("skills.%w", err)
	}
	if err := skill.Unknown(s.Tools); err != nil {
		bad("skills.tools: %w", err)
	}
	known := skills.CompatNames()
	if i := slices.IndexFunc(s.Compat, func(name string) bool { return !slices.Contains(known, name) }); i >= 0 {
		bad("skills.compat: %q is none of %s", s.Compat[i], strings.Join(known, ", "))
	}
	if !slices.Contains([]skills.GrantTTL{skills.GrantSession, skills.GrantTurn}, s.GrantTTL) {
		bad("skills.grant_ttl: %q is none of session, turn", s.GrantTTL)
	}
	if !slices.Contains([]string{"warn", "error"}, s.OnUnknown) {
		bad("skills.on_unknown: %q is none of warn, error", s.OnUnknown)
	}
	for key, of := range map[string]any{"skills.initial.": s.Initial, "skills.": s} {
		for _, name := range invalidNumbers(of, func(n float64) bool { return n > 0 }) {
			bad("%s%s has to be above 0", key, name)
		}
	}
	for name, rules := range s.Toolsets {
		for _, r := range rules {
			if _, err := permission.ParseRule(r); err != nil {
				bad("skills.toolsets.%s: %w", name, err)
			}
		}
	}
	s.Registry.check(bad)
}
