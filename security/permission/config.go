package permission

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"gopkg.in/yaml.v3"
)

// Config is a policy as a person writes it. The zero value is the preset standard. Policy makes
// it usable; nothing is checked before.
type Config struct {
	// Preset is what the lists add to. Default "standard": look around, ask about the rest.
	Preset string `yaml:"preset,omitempty"`
	// Allow, Deny, FinalDeny and Override are added to the lists of the preset.
	Allow     []RuleText `yaml:"allow,omitempty"`
	Deny      []RuleText `yaml:"deny,omitempty"`
	FinalDeny []RuleText `yaml:"final_deny,omitempty"`
	Override  []RuleText `yaml:"override,omitempty"`
	// Default is allow, ask or deny. Default: the preset's.
	Default string `yaml:"default,omitempty"`
	// SessionMemory says whether an answer with "always" holds for the same call until the agent ends. Default: it does.
	SessionMemory *bool `yaml:"session_memory,omitempty"`
}

// RuleText is a rule as a person writes it: its text, or a mapping of rule, box, match and not_match. {rule: Bash, box: look}
// is Bash(box:look).
type RuleText struct {
	Rule string
	// Match are examples that the rule has to cover, such as "git log -1" for Bash(git log:*);
	// NotMatch are examples that it must not cover. Policy compares the rule with them.
	Match, NotMatch []string
	// At is where the rule is written, as LINE:COLUMN or FILE:LINE:COLUMN; "" when it was not
	// read from a file.
	At string
}

// Rules returns the texts as rules without examples or positions.
func Rules(texts ...string) []RuleText {
	all := make([]RuleText, len(texts))
	for i, t := range texts {
		all[i].Rule = t
	}
	return all
}

// ruleYAML is the long form of a RuleText in a file.
type ruleYAML struct {
	Rule     string   `yaml:"rule"`
	Box      string   `yaml:"box,omitempty"`
	Match    []string `yaml:"match,omitempty"`
	NotMatch []string `yaml:"not_match,omitempty"`
}

// JSONSchema returns the schema of both forms in a file. The syntax of the rule itself is left to
// Policy.
func (RuleText) JSONSchema() *jsonschema.Schema {
	text := jsonschema.Schema{Type: "string"}
	long := &jsonschema.Schema{Type: "object", AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
		Properties: map[string]*jsonschema.Schema{"rule": text.CloneSchemas(), "box": text.CloneSchemas()}}
	for _, key := range []string{"match", "not_match"} {
		long.Properties[key] = &jsonschema.Schema{Type: "array", Items: text.CloneSchemas()}
	}
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{&text, long}}
}

// UnmarshalYAML reads both forms and notes the position for messages. An unknown key is an
// error, since a misspelled not_match would check nothing.
func (r *RuleText) UnmarshalYAML(n *yaml.Node) error {
	at := fmt.Sprintf("%d:%d", n.Line, n.Column)
	if n.Kind != yaml.MappingNode {
		r.At = at
		return n.Decode(&r.Rule)
	}
	for i := 0; i < len(n.Content); i += 2 {
		if key := n.Content[i].Value; !slices.Contains([]string{"rule", "box", "match", "not_match"}, key) {
			return fmt.Errorf("line %d: a rule has no key %q, only rule, box, match and not_match", n.Content[i].Line, key)
		}
	}
	var long ruleYAML
	err := n.Decode(&long)
	if long.Box != "" && strings.Contains(long.Rule, "(") {
		return fmt.Errorf("line %d: a box is for every command: write {rule: Bash, box: %s}", n.Line, long.Box)
	}
	if long.Box != "" {
		long.Rule += "(" + boxMark + long.Box + ")"
	}
	*r = RuleText{Rule: long.Rule, Match: long.Match, NotMatch: long.NotMatch, At: at}
	return err
}

// MarshalYAML writes the text alone unless there are examples.
func (r RuleText) MarshalYAML() (any, error) {
	if len(r.Match)+len(r.NotMatch) == 0 {
		return r.Rule, nil
	}
	return ruleYAML{Rule: r.Rule, Match: r.Match, NotMatch: r.NotMatch}, nil
}

// In returns the configuration with the file's name in front of each position, for Explain.
// The receiver is not changed.
func (c Config) In(file string) Config {
	for _, list := range c.lists() {
		*list.texts = slices.Clone(*list.texts)
		for i := range *list.texts {
			if at := &(*list.texts)[i].At; *at != "" {
				*at = file + ":" + *at
			}
		}
	}
	return c
}

// Merge returns the configuration with another over it. later's preset, default and session
// memory win if it has them; the rules are the rules of both, each once, with the examples of both
// and the position in c. Neither configuration is
// changed.
func (c Config) Merge(later Config) Config {
	if later.Preset != "" {
		c.Preset = later.Preset
	}
	if later.Default != "" {
		c.Default = later.Default
	}
	c.SessionMemory = cmp.Or(later.SessionMemory, c.SessionMemory)
	from := later.lists()
	for i, list := range c.lists() {
		both := slices.Concat(*list.texts, *from[i].texts)
		*list.texts = nil
		for _, r := range both {
			at := slices.IndexFunc(*list.texts, func(o RuleText) bool { return o.Rule == r.Rule })
			if at < 0 {
				*list.texts = append(*list.texts, r)
				continue
			}
			have := &(*list.texts)[at]
			have.Match, have.NotMatch = slices.Concat(have.Match, r.Match), slices.Concat(have.NotMatch, r.NotMatch)
		}
	}
	return c
}

// textList is one list of a configuration by its key in YAML.
type textList struct {
	name  string
	texts *[]RuleText
}

// lists are the configuration's lists, in the order of Policy.lists.
func (c *Config) lists() [4]textList {
	return [4]textList{{"final_deny", &c.FinalDeny}, {"override", &c.Override}, {"deny", &c.Deny}, {"allow", &c.Allow}}
}

// Parse reads the rule as one of a list: allow, override, deny, final_deny, or the ask of a guardrail, which is read like deny.
// The error, a *RuleError unless an example does not fit, names the list; the Rule beside it may match nothing.
func (r RuleText) Parse(list string) (Rule, error) {
	denies := list != "allow" && list != "override"
	rule, err := ParseRule(r.Rule)
	if err == nil {
		err = cmp.Or(rule.CheckMatches(denies), r.verify(rule, denies))
	}
	var bad *RuleError
	if errors.As(err, &bad) {
		bad.List, bad.At = list, r.At
	} else if err != nil {
		err = fmt.Errorf("%s rule %q: %w", list, r.Rule, err)
	}
	return rule, err
}

// Policy parses the configuration. Its error joins one *RuleError for each bad rule, naming its
// list, one error for each example that a rule does not fit, and what else is wrong, so that a
// person can mend all of it at once. The Policy beside an error denies everything. It judges the
// examples, and so may read links of the file system.
func (c Config) Policy() (Policy, error) {
	name := c.Preset
	name = cmp.Or(name, "standard")
	p, err := Preset(name)
	p.at = p.origins("preset " + name)
	errs := []error{err}
	own := map[string]bool{}
	from, to := c.lists(), p.lists()
	for i, list := range slices.Backward(from[:]) { // allow first, as people write it
		for _, text := range *list.texts {
			r, err := text.Parse(list.name)
			errs = append(errs, err)
			*to[i].rules = append(*to[i].rules, r)
			// The first position counts. A rule of one's own that the preset has too is one's own.
			if key := list.name + " " + r.text; !own[key] {
				own[key], p.at[key] = true, text.At
			}
		}
	}
	p.NoMemory = c.SessionMemory != nil && !*c.SessionMemory
	if c.Default != "" {
		p.Default, err = ParseAction(c.Default)
		if err != nil {
			errs = append(errs, fmt.Errorf("default: %w", err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return Policy{}, err
	}
	return p, nil
}
