package definition

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"symbio/internal/security/visible"
	"symbio/security/permission"
)

// claudeKeys returns the keys of definitions of Claude Code that have another name here. Those that
// restrict an agent must not be ignored.
func (f *parser) claudeKeys(d *Definition) map[string]field {
	mode := ""
	denied := f.words("disallowedTools", "[Bash]", func(all []item) {
		for _, one := range all {
			tool, spec, _ := strings.Cut(one.text, "(")
			name := f.loader.sameTool(tool)
			err := (permission.Tools{Names: f.loader.Tools}).Check(name)
			if err != nil && f.loader.nearest(tool) == "" {
				f.warn(one.line, "disallowedTools: there is no tool %s here", tool)
				continue
			}
			if tool != one.text {
				name += "(" + spec
			}
			rule := permission.RuleText{Rule: name}
			if _, wrong := rule.Parse("deny"); cmp.Or(err, wrong) != nil {
				f.addProblem(one.line, "disallowedTools: %s", cmp.Or(err, wrong))
				continue
			}
			rule.At = fmt.Sprintf("%d:1", one.line)
			d.Permissions.Deny = append(d.Permissions.Deny, rule)
		}
	})
	text := f.text("permissionMode", &mode)
	plan := func(p pair) {
		if text.read(p); mode == "plan" {
			f.planMode = true
			return
		}
		f.warn(p.key.Line, "permissionMode %q is ignored: a definition cannot give more than the node allows", mode)
	}
	return map[string]field{
		"disallowedTools": denied,
		"permissionMode":  {plan, text.schema},
		"maxTurns":        f.number("maxTurns", 0, &d.MaxTurns),
	}
}

// words is list for keys that Claude Code writes as one text, too, with commas or blanks between the words.
func (f *parser) words(name, example string, use func([]item)) field {
	list := f.list(name, example, use)
	read := func(p pair) {
		if p.value.Kind != yaml.ScalarNode {
			list.read(p)
			return
		}
		words, err := permission.ParseList(p.value.Value)
		if err != nil {
			f.addProblem(p.value.Line, "%s: %v", name, err)
			return
		}
		all := make([]item, len(words))
		for i, word := range words {
			all[i] = item{word, p.value.Line}
		}
		use(all)
	}
	return field{read, anyOf(textSchema(), list.schema)}
}

// nearest returns the end of a message about a tool that does not exist. It is "" for a name that resembles none and for a tool
// of another program: it is not to be had anyway.
func (k Loader) nearest(tool string) string {
	if _, foreign := permission.Foreign(tool); foreign {
		return ""
	}
	return visible.Suggest(tool, append([]string{"Skill", "Agent"}, k.Tools...))
}

// sameTool returns the name that a tool has here: in the case of letters that it has, and with mcp__SERVER standing for all
// tools of a server.
func (k Loader) sameTool(name string) string {
	if server, ok := strings.CutPrefix(name, MCPPrefix); ok && server != "" && !strings.Contains(server, "__") && !strings.HasSuffix(name, "*") {
		return name + "__*"
	}
	if slices.Contains(k.Tools, name) {
		return name
	}
	if tool, _ := permission.Foreign(name); tool != "" {
		return tool
	}
	for _, known := range k.Tools {
		if strings.EqualFold(known, name) {
			return known
		}
	}
	return name
}

// usable reports whether a specification of a model can be used. It warns about a name without a provider, as other
// programs have (opus, gpt-5, us.anthropic.x-v1:0): the node's model is used then. A wrong provider is a problem.
func (f *parser) usable(one item) bool {
	if one.text == "inherit" {
		return false
	}
	if f.loader.Model == nil {
		return true
	}
	err := f.loader.Model(one.text)
	if provider, _, found := strings.Cut(one.text, ":"); err != nil && (!found || strings.Contains(provider, ".")) {
		f.warn(one.line, "model %q is a name of another program; the node's model is used", one.text)
		return false
	}
	if err != nil {
		f.addProblem(one.line, "model %s", err)
	}
	return true
}

// ignoredKeys are keys of Claude Code that mean nothing here. A definition that has them is read with a warning.
var ignoredKeys = []string{"background", "color", "hooks", "initialPrompt", "isolation", "mcpServers", "memory"}

// description reads a text, and warns if YAML takes its end for a comment.
func (f *parser) description(to *string) field {
	text := f.text("description", to)
	return field{func(p pair) {
		if text.read(p); p.value.Style == 0 && p.value.LineComment != "" {
			f.warn(p.value.Line, "description: %q is left out, as a # after a blank begins a comment: put the text in quotes", p.value.LineComment)
		}
	}, text.schema}
}

// misspelled reports whether an unknown key probably is a known one, or restricts the agent in a way that is not known. Such a
// key must not be ignored.
func misspelled(key string, known []string) bool {
	plain := func(key string) string { return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(key)) }
	if key = plain(key); key == "mode" { // of other programs; too much like model
		return false
	}
	for _, part := range []string{"tools", "permission", "guardrail", "sandbox", "budget", "turns", "tokens", "readonly", "deny", "preset", "network", "disable"} {
		if strings.Contains(key, part) {
			return true
		}
	}
	limit := 2 + len(key)/6
	return slices.ContainsFunc(known, func(k string) bool { return visible.EditDistance(key, plain(k), limit) < limit })
}
