package format

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"symbio/internal/security/lazyregexp"
	"symbio/internal/security/visible"
)

// The fields of this file are not in the specification. Each may stand at the top or under metadata;
// as text under metadata it is allowed at level strict. A fault in one of them is a warning,
// and the skill loads without it.
const (
	triggersField = "triggers"
	autoField     = "auto"
	toolsetsField = "toolsets"
	dependsField  = "depends"
	versionField  = "version"
)

// plannedFields are the fields that are read here, and are not reported as unknown.
var plannedFields = map[string]bool{triggersField: true, autoField: true, toolsetsField: true, dependsField: true}

// The limits of the lists, which come from hostile files and are compared with every task.
const (
	// maxTriggers limits the entries of each list of triggers.
	maxTriggers = 32
	// maxTrigger limits a keyword or verb, in characters.
	maxTrigger = 64
	// maxDepends limits the skills that one skill depends on, and the toolsets that it asks for.
	maxDepends = 16
	// maxDependency limits one entry of depends, in characters.
	maxDependency = 200
)

// Triggers say which tasks a skill is for. Case does not matter.
type Triggers struct {
	// Keywords are words or phrases.
	Keywords []string `json:"keywords,omitempty"`
	// Verbs are words that may have an English ending: say means says and saying, too.
	Verbs []string `json:"verbs,omitempty"`
	// Patterns are texts that ParsePattern reads.
	Patterns []string `json:"patterns,omitempty"`
}

// Empty reports whether there are no triggers.
func (t Triggers) Empty() bool { return len(t.Keywords)+len(t.Verbs)+len(t.Patterns) == 0 }

// Dependency is a skill that is activated together with the one that names it.
type Dependency struct {
	Name string
	// Constraint is text that ParseConstraint reads; "" allows every version.
	Constraint string
}

// String returns the dependency as in a SKILL.md: name >=1.2 <2.
func (d Dependency) String() string { return strings.TrimSpace(d.Name + " " + d.Constraint) }

// MarshalText is String.
func (d Dependency) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// planned reads all fields of this file.
func (c *checker) planned() {
	c.version()
	c.triggers()
	c.auto()
	c.depends()
	c.toolsets()
}

// plannedValue returns the value of a field, which may stand under metadata, and the top-level field
// to name in a diagnostic. ok is false for a field that is absent or null.
func (c *checker) plannedValue(key string) (n *yaml.Node, at string, ok bool) {
	if n, ok := c.value(key); ok {
		return n, key, true
	}
	m, ok := c.value("metadata")
	if !ok || m.Kind != yaml.MappingNode {
		return nil, "", false
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		if v := m.Content[i+1]; m.Content[i].Value == key && (v.Kind != yaml.ScalarNode || v.Tag != "!!null") {
			return v, "metadata", true
		}
	}
	return nil, "", false
}

// version stores metadata.version, else the top-level field.
func (c *checker) version() {
	c.m.Version = strings.TrimSpace(c.m.Metadata[versionField])
	if n, ok := c.value(versionField); ok && c.m.Version == "" && n.Kind == yaml.ScalarNode {
		c.m.Version = strings.TrimSpace(n.Value)
	}
	if _, err := ParseVersion(c.m.Version); c.m.Version != "" && err != nil {
		c.add(Note, CodeVersion, versionField, "%v; it counts as no version", err)
	}
}

// triggers reads a map of lists. A list or a text alone are keywords.
func (c *checker) triggers() {
	n, at, ok := c.plannedValue(triggersField)
	if !ok {
		return
	}
	if n.Kind != yaml.MappingNode {
		c.m.Triggers.Keywords = c.list(n, at, "triggers", maxTriggers, maxTrigger)
		return
	}
	var unknown []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch key, v := n.Content[i].Value, n.Content[i+1]; key {
		case "keywords":
			c.m.Triggers.Keywords = c.list(v, at, key, maxTriggers, maxTrigger)
		case "verbs":
			c.m.Triggers.Verbs = c.list(v, at, key, maxTriggers, maxTrigger)
		case "patterns":
			c.m.Triggers.Patterns = c.patterns(v, at)
		default:
			unknown = append(unknown, key)
		}
	}
	if unknown != nil {
		c.add(Warning, CodeListEntry, at, "triggers has only the keys keywords, verbs and patterns, not %s", joinFirst(unknown))
	}
}

// patterns reads the list of patterns, and leaves out those that ParsePattern refuses. A text is one
// pattern, because a comma can be a part of it.
func (c *checker) patterns(n *yaml.Node, at string) (good []string) {
	if n.Kind == yaml.ScalarNode {
		n = &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{n}}
	}
	for _, p := range c.list(n, at, "patterns", maxTriggers, maxPattern) {
		if _, err := ParsePattern(p); err != nil {
			c.add(Warning, CodePattern, at, "the pattern %q is left out: %v", p, err)
			continue
		}
		good = append(good, p)
	}
	return good
}

// auto reads the flag that lets a trigger activate the skill. An unreadable flag is false: the
// flag widens what happens without a person.
func (c *checker) auto() {
	n, at, ok := c.plannedValue(autoField)
	if !ok {
		return
	}
	on, known := flagWords[strings.ToLower(n.Value)]
	if n.Kind != yaml.ScalarNode || !known || c.fields[at].repaired {
		c.add(Warning, CodeFlagValue, at, "auto must be true or false; it is taken as false")
		return
	}
	c.m.Auto = on
}

// condition is a comma before another condition of the same dependency, in a text.
var condition = lazyregexp.New(`,[ \t]*([<>=!^~])`)

// depends reads the list of dependencies.
func (c *checker) depends() {
	n, at, ok := c.plannedValue(dependsField)
	if !ok {
		return
	}
	if n.Kind == yaml.ScalarNode {
		n = &yaml.Node{Kind: n.Kind, Value: condition().ReplaceAllString(n.Value, " $1")}
	}
	seen := map[string]bool{}
	for _, text := range c.list(n, at, dependsField, maxDepends, maxDependency) {
		end := strings.IndexAny(text, " \t@<>=!^~")
		if end < 0 {
			end = len(text)
		}
		name := text[:end]
		rest, err := ParseConstraint(strings.TrimLeft(text[end:], " \t@"))
		switch {
		case err != nil:
			c.add(Warning, CodeDependency, at, "the dependency %q is left out: %v", text, err)
		case name == "" || harmful(name) || seen[name] || utf8.RuneCountInString(name) > maxName:
			c.add(Warning, CodeDependency, at, "the dependency %q is left out: write the name of another skill, once", text)
		default:
			seen[name] = true
			c.m.Depends = append(c.m.Depends, Dependency{name, rest.String()})
		}
	}
}

// toolsets reads the names of toolsets, and asks for their rules as allowed-tools does.
func (c *checker) toolsets() {
	n, at, ok := c.plannedValue(toolsetsField)
	if !ok {
		return
	}
	if c.fields[at].repaired {
		c.add(Warning, CodeGrantRefused, at, "toolsets is not valid YAML; nothing is granted on a guess")
		return
	}
	c.m.Toolsets = c.list(n, at, toolsetsField, maxDepends, maxName)
	for _, name := range c.m.Toolsets {
		rules, defined := c.policy.Toolsets[name]
		if !defined {
			known := slices.Sorted(maps.Keys(c.policy.Toolsets))
			c.add(Warning, CodeToolset, at, "no toolset is named %q%s; the configuration defines them under skills.toolsets", name, visible.Suggest(name, known))
		}
		for _, rule := range rules {
			if !slices.Contains(c.m.AllowedTools, rule) {
				c.m.AllowedTools = append(c.m.AllowedTools, rule)
				c.grant(rule, at)
			}
		}
	}
}

// list reads texts from a list, or from one text that commas separate. It leaves out doubles, and
// with one diagnostic what is no text, longer than maxLength characters, or beyond maxCount.
func (c *checker) list(n *yaml.Node, at, what string, maxCount, maxLength int) (texts []string) {
	bad := 0
	for _, item := range items(n, &bad) {
		switch item = strings.TrimSpace(item); {
		case item == "" || slices.Contains(texts, item):
		case utf8.RuneCountInString(item) > maxLength || len(texts) == maxCount:
			bad++
		default:
			texts = append(texts, item)
		}
	}
	if bad > 0 {
		c.add(Warning, CodeListEntry, at, "%d entries of %s are left out: it must be a list of at most %d texts of at most %d characters", bad, what, maxCount, maxLength)
	}
	return texts
}

// items returns the texts of a list, or of one text that commas separate, and counts what is
// neither.
func items(n *yaml.Node, bad *int) (texts []string) {
	switch n.Kind {
	case yaml.ScalarNode:
		return strings.Split(n.Value, ",")
	case yaml.SequenceNode:
		for _, item := range n.Content {
			if item.Kind == yaml.ScalarNode {
				texts = append(texts, item.Value)
			} else {
				*bad++
			}
		}
	default:
		*bad++
	}
	return texts
}
