package permission

import (
	"errors"
	"fmt"
	"strings"
)

// reading are the tools that only look at the workspace and at who is there, or take in a skill's text.
var reading = []string{"Read", "Glob", "Grep", "find_members", "activate_skill"}

// must reads the rules of a preset, which are constants of this file.
func must(texts ...string) []Rule {
	var rules []Rule
	for _, t := range texts {
		r, err := ParseRule(t)
		if err != nil {
			panic(err)
		}
		rules = append(rules, r)
	}
	return rules
}

// Standard lets an agent look around and asks about the rest (spec: swiftagent.md, Security:
// interactive permission).
func Standard() Policy {
	return Policy{FinalDeny: must("Bash(sudo:*)"), Deny: must("Bash(rm -rf:*)"), Allow: must(reading...), Default: Ask}
}

// Development also lets it write in the workspace, use git, work with other agents and be of use to
// them (spec: loose permission).
func Development() Policy {
	p := Standard()
	p.Allow = append(p.Allow, must("Write", "Edit", "MultiEdit", "Git", "send_signal", "replicate_agent", "invoke_capability")...)
	return p
}

// Restrictive lets it read below its working directory and denies the rest (spec: the least
// permission).
func Restrictive() Policy {
	return Policy{FinalDeny: must("Bash"), Allow: must("Read(./*)", "Glob(./*)", "Grep(./*)"), Default: Deny}
}

// ReadOnly lets it look around, and denies for good what writes or runs something (spec: reading
// only, no execution).
func ReadOnly() Policy {
	return Policy{FinalDeny: must("Edit", "Bash"), Allow: must(reading...), Default: Deny}
}

// Permissive allows what no rule denies. The sandbox still holds.
func Permissive() Policy { return Policy{Default: Allow} }

// PresetNames are what Preset knows.
func PresetNames() []string {
	return []string{"standard", "development", "restrictive", "read_only", "permissive", "none"}
}

// Preset finds a policy by its name; readOnly, as the spec writes it, is read_only. "none" has no
// rules and asks.
func Preset(name string) (Policy, error) {
	switch name {
	case "standard":
		return Standard(), nil
	case "development":
		return Development(), nil
	case "restrictive":
		return Restrictive(), nil
	case "read_only", "readOnly", "read-only", "readonly":
		return ReadOnly(), nil
	case "permissive":
		return Permissive(), nil
	case "none":
		return Policy{Default: Ask}, nil
	}
	return Policy{}, fmt.Errorf("there is no permission preset %q: write one of %s", name, strings.Join(PresetNames(), ", "))
}

// Config is a policy as a person writes it. The zero value is the preset standard.
type Config struct {
	// Preset is what the lists add to. Default "standard": look around, ask about the rest.
	Preset    string   `yaml:"preset,omitempty" json:"preset,omitempty"`
	Allow     []string `yaml:"allow,omitempty" json:"allow,omitempty"`
	Deny      []string `yaml:"deny,omitempty" json:"deny,omitempty"`
	FinalDeny []string `yaml:"final_deny,omitempty" json:"final_deny,omitempty"`
	Override  []string `yaml:"override,omitempty" json:"override,omitempty"`
	// Default is allow, ask or deny. Default: the preset's.
	Default string `yaml:"default,omitempty" json:"default,omitempty"`
}

// Policy reads the configuration. Its error joins one *RuleError for each bad rule, naming its list,
// and what else is wrong; the Policy beside an error denies everything.
func (c Config) Policy() (Policy, error) {
	name := c.Preset
	if name == "" {
		name = "standard"
	}
	p, err := Preset(name)
	errs := []error{err}
	for _, list := range []struct {
		name  string
		texts []string
		to    *[]Rule
	}{
		{"allow", c.Allow, &p.Allow}, {"deny", c.Deny, &p.Deny},
		{"final_deny", c.FinalDeny, &p.FinalDeny}, {"override", c.Override, &p.Override},
	} {
		for _, text := range list.texts {
			r, err := ParseRule(text)
			var bad *RuleError
			if errors.As(err, &bad) {
				bad.List = list.name
			}
			errs = append(errs, err)
			*list.to = append(*list.to, r)
		}
	}
	if c.Default != "" {
		p.Default, err = ParseAction(c.Default)
		if err != nil {
			errs = append(errs, fmt.Errorf("default: %w", err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return Policy{}, fmt.Errorf("permissions: %w", err)
	}
	return p, nil
}
