package config

import (
	"slices"
	"strings"

	"symbio/agent/tool/skill"
	"symbio/skills"
)

// SkillUse says which skills agents can activate, and how models learn about
// them.
type SkillUse struct {
	// Choices has disabled and overrides: who may activate a skill. The keys
	// are names or paths of skills.
	skills.Choices `yaml:",inline"`
	// Tools are the tools for skills that agents have.
	Tools   []string      `yaml:"tools"`
	Initial SkillsInitial `yaml:"initial"`
	Search  SkillsSearch  `yaml:"search"`
	// MaxActive is the number of skills that one agent may have active at once.
	MaxActive int `yaml:"max_active"`
	// GrantTTL says how long the permissions granted by a skill last: session
	// or turn.
	GrantTTL skills.GrantTTL `yaml:"grant_ttl"`
	// OnUnknown says what happens when a definition names a skill that does not
	// exist: warn or error.
	OnUnknown string `yaml:"on_unknown"`
	// StrictScan makes an invalid skill an error at the start of the node.
	// Otherwise the skill is left out with a warning.
	StrictScan bool `yaml:"strict_scan"`
	// Duplicates says which skill a name means that several skills have:
	// ambiguous (none) or precedence (the nearest).
	Duplicates skills.Duplicates `yaml:"duplicates"`
	// IncludeFrontMatter shows models the front matter of a SKILL.md, too.
	IncludeFrontMatter bool `yaml:"include_front_matter"`
}

// SkillsInitial bounds the part of the catalog that stands in a system prompt.
// Models find the rest with skill_search.
type SkillsInitial struct {
	Format     skills.PromptFormat `yaml:"format"` // available_skills or skills_context
	MaxEntries int                 `yaml:"max_entries"`
	MaxBytes   int                 `yaml:"max_bytes"`
}

// SkillsSearch bounds the results of the tool skill_search.
type SkillsSearch struct {
	DefaultLimit int `yaml:"default_limit"`
	MaxLimit     int `yaml:"max_limit"`
}

// maxSearchResults is the largest skills.search.max_limit: package skills
// returns no more results of one search.
const maxSearchResults = 50

// defaultSkills returns the defaults. The numbers are the numbers of package skills,
// which says why.
func defaultSkills() Skills {
	return Skills{Enabled: true, Discover: true, SkillUse: SkillUse{
		Tools: skill.Default(), Initial: SkillsInitial{Format: skills.AvailableSkills, MaxEntries: 200, MaxBytes: 32 << 10},
		Search: SkillsSearch{DefaultLimit: 8, MaxLimit: maxSearchResults}, MaxActive: 16, GrantTTL: skills.GrantSession, OnUnknown: "warn",
		Duplicates: skills.DuplicatesAmbiguous,
	}, SkillReading: SkillReading{MaxDepth: 6, MaxDirectories: 2000, MaxEntries: 20_000, MaxSkills: 20_000}}
}

// resolve calls makeAbsolute with each key of the choices that is a path. Paths
// contain a slash, names do not; a key that begins with "bundled:" names a
// skill inside the program.
func (s *SkillUse) resolve(makeAbsolute func(*string)) {
	for i := range s.Disabled {
		if strings.ContainsRune(s.Disabled[i], '/') && !strings.HasPrefix(s.Disabled[i], "bundled:") {
			makeAbsolute(&s.Disabled[i])
		}
	}
	overrides := map[string]skills.Exposure{}
	for name, e := range s.Overrides {
		if strings.ContainsRune(name, '/') && !strings.HasPrefix(name, "bundled:") {
			makeAbsolute(&name)
		}
		overrides[name] = e
	}
	if s.Overrides != nil {
		s.Overrides = overrides
	}
}

// check reports unknown words and numbers below 1.
func (s SkillUse) check(bad func(string, ...any)) {
	if err := s.Choices.Check(); err != nil {
		bad("skills.%w", err)
	}
	if err := skill.Unknown(s.Tools); err != nil {
		bad("skills.tools: %w", err)
	}
	for _, one := range []struct {
		key, value string
		of         []string
	}{
		{"initial.format", string(s.Initial.Format), []string{string(skills.AvailableSkills), string(skills.SkillsContext)}},
		{"grant_ttl", string(s.GrantTTL), []string{string(skills.GrantSession), string(skills.GrantTurn)}},
		{"on_unknown", s.OnUnknown, []string{"warn", "error"}},
		{"duplicates", string(s.Duplicates), []string{string(skills.DuplicatesAmbiguous), string(skills.DuplicatesPrecedence)}},
	} {
		if !slices.Contains(one.of, one.value) {
			bad("skills.%s: %q is none of %s", one.key, one.value, strings.Join(one.of, ", "))
		}
	}
	for _, n := range []struct {
		key   string
		value int
	}{
		{"initial.max_entries", s.Initial.MaxEntries}, {"initial.max_bytes", s.Initial.MaxBytes},
		{"search.default_limit", s.Search.DefaultLimit}, {"search.max_limit", s.Search.MaxLimit}, {"max_active", s.MaxActive},
	} {
		if n.value < 1 {
			bad("skills.%s has to be above 0", n.key)
		}
	}
	if s.Search.MaxLimit > maxSearchResults {
		bad("skills.search.max_limit: at most %d", maxSearchResults)
	}
}
