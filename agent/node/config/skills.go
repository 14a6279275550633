package config

import (
	"slices"
	"strings"

	"symbio/agent/tool/skill"
	"symbio/skills"
)

// SkillUse says which skills there are for whom, and how models are told of them.
type SkillUse struct {
	// Disabled and Overrides name skills, or paths of theirs, and who may take them.
	skills.Choices `yaml:",inline"`
	// Tools are those that agents have for skills.
	Tools   []string      `yaml:"tools"`
	Initial SkillsInitial `yaml:"initial"`
	Search  SkillsSearch  `yaml:"search"`
	// MaxActive is how many skills an agent may have at a time.
	MaxActive int `yaml:"max_active"`
	// GrantTTL is how long what a skill grants lasts: session or turn.
	GrantTTL skills.GrantTTL `yaml:"grant_ttl"`
	// OnUnknown is what comes of a definition that names a skill which there is not: warn or error.
	OnUnknown string `yaml:"on_unknown"`
	// StrictScan keeps a node from starting when a skill is in disorder. Otherwise that skill is left out.
	StrictScan bool `yaml:"strict_scan"`
	// Duplicates is what a name means that several skills have: ambiguous or precedence.
	Duplicates skills.Duplicates `yaml:"duplicates"`
	// IncludeFrontMatter gives models a SKILL.md whole.
	IncludeFrontMatter bool `yaml:"include_front_matter"`
}

// SkillsInitial bounds what of the catalog goes into a system prompt.
type SkillsInitial struct {
	Format     skills.PromptFormat `yaml:"format"` // available_skills or skills_context
	MaxEntries int                 `yaml:"max_entries"`
	MaxBytes   int                 `yaml:"max_bytes"`
}

// SkillsSearch bounds what skill_search returns.
type SkillsSearch struct {
	DefaultLimit int `yaml:"default_limit"`
	MaxLimit     int `yaml:"max_limit"`
}

// mostFound is what package skills returns of a search at most.
const mostFound = 50

// defaultSkills are the numbers of package skills, which gives their reasons.
func defaultSkills() Skills {
	return Skills{Enabled: true, Discover: true, SkillUse: SkillUse{
		Tools: skill.Default(), Initial: SkillsInitial{Format: skills.AvailableSkills, MaxEntries: 200, MaxBytes: 32 << 10},
		Search: SkillsSearch{DefaultLimit: 8, MaxLimit: mostFound}, MaxActive: 16, GrantTTL: skills.GrantSession, OnUnknown: "warn", Duplicates: skills.DuplicatesAmbiguous,
	}, SkillReading: SkillReading{MaxDepth: 6, MaxDirectories: 2000, MaxEntries: 20_000, MaxSkills: 20_000}}
}

// resolve makes the paths among the choices absolute. A name holds no slash.
func (s *SkillUse) resolve(at func(*string)) {
	for i := range s.Disabled {
		if strings.ContainsRune(s.Disabled[i], '/') && !strings.HasPrefix(s.Disabled[i], "bundled:") {
			at(&s.Disabled[i])
		}
	}
	overrides := map[string]skills.Exposure{}
	for name, e := range s.Overrides {
		if strings.ContainsRune(name, '/') && !strings.HasPrefix(name, "bundled:") {
			at(&name)
		}
		overrides[name] = e
	}
	if s.Overrides != nil {
		s.Overrides = overrides
	}
}

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
	if s.Search.MaxLimit > mostFound {
		bad("skills.search.max_limit: at most %d", mostFound)
	}
}
