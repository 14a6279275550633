package agent

import (
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"symbio/agent/tool"
	"symbio/security/permission"
)

// Parse is ParseDefinition of what is known, with the problems in the order of their lines.
func (k Known) Parse(text []byte) (Definition, []Problem) { return k.parse(text, "") }

// parse reads a definition; file is how its file is called, "" = not known.
func (k Known) parse(text []byte, file string) (Definition, []Problem) {
	f := &front{known: k, lines: 1 + bytes.Count(text, []byte("\n"))}
	if len(text) > maxDefinition {
		f.bad(1, "larger than %d KiB", maxDefinition>>10)
		return Definition{}, f.found()
	}
	head, body, err := splitFrontMatter(text)
	if err != nil {
		f.bad(1, "%s", err)
		return Definition{}, f.found()
	}
	d := Definition{Instructions: strings.TrimSpace(string(body))}
	if f.lines = 1 + bytes.Count(head, []byte("\n")); len(head) == 0 {
		f.lines = 2
	}
	root := f.root(head)
	if root == nil && len(f.problems) > 0 {
		return d, f.found()
	}
	if root == nil {
		root = &yaml.Node{Kind: yaml.MappingNode}
	}
	f.definition(root, &d, file)
	return d, f.found()
}

func (f *front) definition(root *yaml.Node, d *Definition, file string) {
	at := f.fields("", root, map[string]func(pair){
		"name":        f.text("name", &d.Name),
		"description": f.text("description", &d.Description),
		"model":       f.model(&d.Model),
		"accepts":     f.list("accepts", "[task]", func(all []item) { d.Accepts = f.accepts(all) }),
		"tools":       f.tools(&d.Tools),
		"skills":      f.list("skills", "[release-notes]", func(all []item) { d.Skills = f.skills(all) }),
		"permissions": func(p pair) { f.permissions(p.value, &d.Permissions) },
		"guardrail":   func(p pair) { f.guardrail(p.value, d) },
		"sandbox":     func(p pair) { f.sandbox(p.value, &d.Sandbox) },
		"budget":      func(p pair) { f.budget(p.value, &d.Budget) },
		"max_turns":   f.number("max_turns", 0, &d.MaxTurns),
		"thinking":    func(p pair) { f.thinking(p.value, &d.Thinking) },
	})
	line := func(key string) int { return max(at[key], 1) }
	switch {
	case len(d.Name) > 64 || !definitionName.MatchString(d.Name):
		f.bad(line("name"), "name %q: want up to 64 letters, digits and single hyphens", d.Name)
	case file != "" && file != d.Name+".md":
		f.bad(line("name"), "name %q differs from the file's name, %s", d.Name, file)
	}
	if d.Description == "" {
		f.bad(line("description"), "description is missing")
	}
	if d.MaxTurns == 0 {
		d.MaxTurns = defaultMaxTurns
	}
	if len(d.Accepts) == 0 {
		d.Accepts = []string{"task"}
	}
	if !slices.Contains(d.Accepts, d.Name) {
		d.Accepts = append(d.Accepts, d.Name)
	}
}

// perceptionName is what a community takes for a perception.
var perceptionName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func (f *front) accepts(all []item) []string {
	names := texts(all)
	for i, one := range all {
		switch {
		case !perceptionName.MatchString(one.text):
			f.bad(one.line, "accepts %q: a perception is up to 64 letters, digits and . _ -", one.text)
		case slices.Index(names, one.text) < i:
			f.bad(one.line, "accepts %q is there twice", one.text)
		}
	}
	return names
}

func (f *front) model(to *string) func(pair) {
	check := func(one item) {
		if f.known.Model == nil {
			return
		}
		if err := f.known.Model(one.text); err != nil {
			f.bad(one.line, "model %s%s", err, f.providerMeant(one.text))
		}
	}
	return func(p pair) {
		if p.value.Kind != yaml.SequenceNode {
			f.text("model", to)(p)
			check(item{*to, p.value.Line})
			return
		}
		f.list("model", "[anthropic:NAME, openai:NAME]", func(all []item) {
			for _, one := range all {
				check(one)
			}
			*to = strings.Join(texts(all), ",")
		})(p)
	}
}

// providerMeant is which beginning of a model's specification was probably meant.
func (f *front) providerMeant(spec string) string {
	begin, _, _ := strings.Cut(spec, ":")
	var all []string
	for _, one := range []string{"openai", "anthropic", "ollama", "peer", "scripted"} {
		if f.known.Model(one+":x") == nil && begin != one {
			all = append(all, one)
		}
	}
	return onlyNear(begin, all)
}

const (
	// allTools is what stands for every tool there is.
	allTools = "*"
	// presetMark stands in front of a preset's name, as in tool.Expand.
	presetMark = "preset:"
)

func (f *front) tools(to *[]string) func(pair) {
	return func(p pair) {
		if p.value.Kind == yaml.ScalarNode && p.value.Value == allTools {
			return
		}
		f.list("tools", `[Read, "preset:web"], or "*" for all`, func(all []item) {
			*to = make([]string, 0, len(all))
			for _, one := range all {
				*to = append(*to, f.tool(one))
			}
		})(p)
	}
}

var (
	toolName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)
	mcpName  = regexp.MustCompile(`^mcp__([A-Za-z0-9_-]*\*|[A-Za-z0-9_-]+__[A-Za-z0-9_-]+)$`)
)

// tool reads one name of a tool, as the tool itself is called: the spec writes read for Read.
func (f *front) tool(one item) string {
	name := one.text
	preset, isPreset := strings.CutPrefix(name, presetMark)
	var presets []string
	for _, p := range tool.Presets() {
		presets = append(presets, p.Name)
	}
	switch {
	case name == allTools:
		f.bad(one.line, `tools: "*" stands alone, as tools: "*", and means all there are`)
	case isPreset && !slices.Contains(presets, preset):
		f.bad(one.line, "tools: there is no preset %q%s", preset, meant(preset, presets))
	case isPreset:
	case strings.HasPrefix(name, moreTools):
		f.server(one)
	case !toolName.MatchString(name):
		f.bad(one.line, "tools: %q is no name of a tool%s", name, onlyNear(name, f.known.Tools))
	case f.known.Tools != nil && !slices.Contains(f.known.Tools, name):
		for _, known := range f.known.Tools {
			if strings.EqualFold(known, name) {
				return known
			}
		}
		if slices.Contains(presets, name) {
			f.bad(one.line, "tools: there is no tool %q; did you mean %q?", name, presetMark+name)
			break
		}
		f.bad(one.line, "tools: there is no tool %q%s", name, meant(name, f.known.Tools))
	}
	return name
}

// server reads the name of tools of an MCP server.
func (f *front) server(one item) {
	if !mcpName.MatchString(one.text) {
		f.bad(one.line, "tools: %q is no name of MCP tools; they are mcp__SERVER__TOOL, or mcp__SERVER__* for all of a server", one.text)
		return
	}
	name, _, whole := strings.Cut(strings.TrimPrefix(one.text, moreTools), "__")
	if whole && f.known.Servers != nil && !slices.Contains(f.known.Servers, name) {
		f.bad(one.line, "tools: there is no MCP server %q%s", name, meant(name, f.known.Servers))
	}
}

func (f *front) skills(all []item) []string {
	for _, one := range all {
		if f.known.Skills != nil && !slices.Contains(f.known.Skills, one.text) {
			f.bad(one.line, "skills: there is no skill %q%s", one.text, meant(one.text, f.known.Skills))
		}
	}
	return texts(all)
}

// mostThinking is how many tokens a model may be let think: what other nodes' models take, too.
const mostThinking = 100_000

// usualThinking is what `thinking: true` is: four times the least that a wire takes, enough to plan a step.
const usualThinking = 4096

func (f *front) thinking(n *yaml.Node, to *int) {
	var on bool
	switch {
	case n.Kind == yaml.MappingNode:
		kind := "enabled"
		f.fields("thinking", n, map[string]func(pair){
			"type":          f.word("thinking.type", []string{"enabled", "disabled"}, &kind),
			"budget_tokens": func(p pair) { f.tokens("thinking.budget_tokens", p.value, to) },
		})
		switch {
		case kind == "disabled":
			*to = -1
		case *to == 0:
			*to = usualThinking
		}
	case n.Kind == yaml.ScalarNode && n.Tag == "!!bool" && n.Decode(&on) == nil:
		if *to = -1; on {
			*to = usualThinking
		}
	default:
		f.tokens("thinking", n, to)
	}
}

func (f *front) tokens(name string, n *yaml.Node, to *int) {
	if n.Kind != yaml.ScalarNode || n.Decode(to) != nil || *to < 1 || *to > mostThinking {
		f.bad(n.Line, "%s is true, false, or how many tokens, from 1 to %d", name, mostThinking)
	}
}

// permissions reads a permission.Config, each rule for itself.
func (f *front) permissions(n *yaml.Node, c *permission.Config) {
	const in = "permissions."
	f.fields("permissions", n, map[string]func(pair){
		"preset":     f.preset("permissions.preset", &c.Preset),
		"allow":      f.rules(in+"allow", &c.Allow),
		"deny":       f.rules(in+"deny", &c.Deny),
		"final_deny": f.rules(in+"final_deny", &c.FinalDeny),
		"override":   f.rules(in+"override", &c.Override),
		"default":    f.word("permissions.default", actions, &c.Default),
	})
}

var actions = []string{"allow", "ask", "deny"}

// guardrail reads a guardrail.Config; a word alone is its preset.
func (f *front) guardrail(n *yaml.Node, d *Definition) {
	const in = "guardrail."
	g := &d.Guardrail
	if n.Kind == yaml.ScalarNode {
		f.preset("guardrail", &g.Preset)(pair{value: n})
		return
	}
	f.fields("guardrail", n, map[string]func(pair){
		"preset":     f.preset("guardrail.preset", &g.Preset),
		"allow":      f.rules(in+"allow", &g.Allow),
		"ask":        f.rules(in+"ask", &g.Ask),
		"deny":       f.rules(in+"deny", &g.Deny),
		"final_deny": f.rules(in+"final_deny", &g.FinalDeny),
		"override":   f.rules(in+"override", &g.Override),
		"default":    f.word("guardrail.default", actions, &g.Default),
	})
}

// preset reads the name of a preset of package permission.
func (f *front) preset(name string, to *string) func(pair) {
	return func(p pair) {
		if p.value.Kind != yaml.ScalarNode || p.value.Decode(to) != nil {
			f.bad(p.value.Line, "%s is the name of a preset, such as read_only", name)
			return
		}
		if _, err := permission.Preset(*to); err != nil {
			f.bad(p.value.Line, "%s: %s%s", name, err, onlyNear(*to, permission.PresetNames()))
		}
	}
}

// rules reads a list of rules. What asks is tried as what denies.
func (f *front) rules(key string, to *[]permission.RuleText) func(pair) {
	_, list, _ := strings.Cut(key, ".")
	return func(p pair) {
		if p.value.Kind != yaml.SequenceNode {
			f.bad(p.value.Line, `%s is a list of rules, such as ["Bash(git log:*)"]`, key)
			return
		}
		for _, n := range p.value.Content {
			var rule permission.RuleText
			line := n.Line
			if err := n.Decode(&rule); err != nil {
				at, reason := placeOf(line, plain(err))
				f.bad(at, "%s: %s", key, reason)
				continue
			}
			*to = append(*to, rule)
			if err := tried(list, rule); err != nil {
				f.bad(line, "%s", strings.TrimPrefix(err.Error(), "permissions: "))
			}
		}
	}
}

// tried is what is wrong with one rule.
func tried(list string, rule permission.RuleText) error {
	one := []permission.RuleText{rule}
	c := permission.Config{Preset: "none"}
	switch list {
	case "allow":
		c.Allow = one
	case "final_deny":
		c.FinalDeny = one
	case "override":
		c.Override = one
	default:
		c.Deny = one
	}
	_, err := c.Policy()
	if err != nil && list == "ask" {
		err = errors.New(strings.Replace(err.Error(), "deny rule", "ask rule", 1))
	}
	return err
}

// plain is an error of YAML's decoder in the words of the file: its first line, without the names of Go types.
func plain(err error) string {
	text := err.Error()
	var typed *yaml.TypeError
	if errors.As(err, &typed) && len(typed.Errors) > 0 {
		text = typed.Errors[0]
	}
	return goType.ReplaceAllString(text, "a different kind of value")
}

var goType = regexp.MustCompile(`(?:permission|agent|time)\.[A-Za-z]+|\[\][A-Za-z.]+`)
