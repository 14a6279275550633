package format

import (
	"errors"
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"

	"symbio/security/permission"
)

// toolsField is the key of the frontmatter with the permissions that a skill asks for.
const toolsField = "allowed-tools"

// allowedTools reads the rules that the skill asks for, from text or from a list. It grants nothing
// from a value that had to be repaired: a guess at broken YAML must not become a permission.
func (c *checker) allowedTools() {
	n, ok := c.value(toolsField)
	if !ok {
		return
	}
	switch n.Kind {
	// The form of the specification.
	case yaml.ScalarNode:
		c.toolText(n.Value)
	case yaml.SequenceNode:
		c.toolList(n)
	default:
		c.deviation(CodeToolsType, toolsField, "allowed-tools must be text: rules separated by spaces; nothing is granted")
		return
	}
	if c.fields[toolsField].repaired {
		const why = "allowed-tools is not valid YAML; nothing is granted on a guess"
		c.add(Warning, CodeGrantRefused, toolsField, why)
		for _, text := range c.m.AllowedTools {
			c.m.Refused = append(c.m.Refused, Refusal{text, why})
		}
		return
	}
	for _, text := range c.m.AllowedTools {
		c.grant(text, toolsField)
	}
}

// toolText reads rules that are separated by blanks. The user and the model see all of them, also
// those that grant refuses later.
func (c *checker) toolText(text string) {
	rules, err := permission.ParseList(text)
	if err != nil {
		s := Warning
		if c.policy.Level == Strict {
			s = Error
		}
		// The rest of an open parenthesis could mean anything, so none of the rules count.
		c.add(s, CodeToolsUnbalanced, toolsField, "%v; nothing is granted", err)
		return
	}
	if c.policy.Level == Strict && commaOutside(text) {
		c.add(Note, CodeToolsComma, toolsField, "the specification separates rules by spaces, not commas")
	}
	c.m.AllowedTools = rules
	for _, r := range rules {
		if c.policy.Level != Strict && commaInBash(r) {
			c.add(Warning, CodeCommaInBash, toolsField, "%s is one rule for that very text; write two rules", r)
		}
	}
}

// toolList reads a YAML list. Each item is one rule and is not split.
func (c *checker) toolList(n *yaml.Node) {
	switch c.policy.Level {
	case Strict:
		c.add(Error, CodeToolsType, toolsField, "the specification wants one text, rules separated by spaces, not a list")
		return
	case Standard:
		c.add(Note, CodeToolsList, toolsField, "the specification wants one text, rules separated by spaces; the list is read as well")
	}
	seen := make(map[string]bool)
	for _, item := range n.Content {
		if item.Kind != yaml.ScalarNode {
			c.deviation(CodeToolsType, toolsField, "each item of allowed-tools must be text")
			continue
		}
		r := strings.TrimSpace(item.Value)
		if r == "" || seen[r] {
			continue
		}
		seen[r] = true
		if _, err := permission.ParseList(r); err != nil {
			c.add(Warning, CodeToolsUnbalanced, toolsField, "%v; nothing is granted", err)
			c.m.AllowedTools = nil
			return
		}
		c.m.AllowedTools = append(c.m.AllowedTools, r)
	}
}

// grant parses a rule with the grammar for skills, which is narrower than that for configurations.
// A rule that it refuses is a warning: the skill works without it. key is the field that asks for it.
func (c *checker) grant(text, key string) {
	rule, err := grantable(text, c.policy.WideGrants)
	if err != nil {
		c.add(Warning, CodeGrantRefused, key, "%s is not granted: %v", text, err)
		c.m.Refused = append(c.m.Refused, Refusal{text, err.Error()})
		return
	}
	c.m.Grants = append(c.m.Grants, rule)
}

// errTooWide refuses a rule that would grant a skill everything.
var errTooWide = errors.New("a skill may not grant a whole shell or every tool; name the commands, as in Bash(git status:*), or have the user set skills.wide_grants")

// grantable parses one rule of a skill. It refuses the widest rules here too, so that no change of
// the rule grammar can grant a shell to a skill. wide is the user's own permission for them
// (skills.wide_grants).
func grantable(text string, wide bool) (permission.Rule, error) {
	tool, spec, _ := strings.Cut(text, "(")
	// The rest of a spec such as "(*)" or "(:*)" is nothing: the rule means every command.
	spec = strings.Trim(spec, "():* \t")
	if strings.Trim(tool, "* \t") == "" || strings.EqualFold(tool, "Bash") && spec == "" {
		// Only the plain spellings of the widest rules can be allowed.
		if !wide || text != "*" && text != "Bash" && text != "Bash(*)" {
			return permission.Rule{}, errTooWide
		}
		return permission.ParseRule(text)
	}
	rule, err := permission.ParseGrant(text)
	if err != nil {
		return permission.Rule{}, fmt.Errorf("read grant: %w", err)
	}
	return rule, nil
}

// commaOutside reports whether text has a comma between rules, that is, outside of parentheses.
func commaOutside(text string) bool {
	depth := 0
	for _, r := range text {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				return true
			}
		}
	}
	return false
}

// commaInBash reports whether a shell rule that matches nothing was probably meant as several, such as Bash(git add:*, git
// commit:*).
func commaInBash(rule string) bool {
	r, err := permission.ParseGrant(rule)
	return err == nil && strings.HasPrefix(rule, "Bash(") && strings.Contains(rule, ",") && r.CheckMatches(false) != nil
}
