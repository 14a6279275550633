package definition

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"gopkg.in/yaml.v3"

	"symbio/agent/tool"
	"symbio/internal/agent/placement"
	"symbio/internal/security/lazyregexp"
	"symbio/internal/security/visible"
	"symbio/skills/format"
)

// parser reads one definition and collects its problems, so that a person sees all of them at once.
// It is for one text and one goroutine.
type parser struct {
	reader
	// loader has the names that exist on this node.
	loader Loader
	// planMode is true if the agent may only read, by permissionMode.
	planMode bool
}

// Parse parses a definition: YAML front matter between lines of three hyphens, and the instructions
// in Markdown below it. It reads definitions of Claude Code, too. The problems are in the order of their lines. A definition
// with problems must not be used.
func (k Loader) Parse(text []byte) (Definition, []Problem) { return k.parse(text, "") }

// parse parses a definition. file is the name of its file; "" means none, and then the name is not
// compared.
func (k Loader) parse(text []byte, file string) (Definition, []Problem) {
	f := &parser{loader: k, reader: reader{lines: 1 + bytes.Count(text, []byte("\n"))}}
	if len(text) > maxDefinition {
		f.addProblem(1, "larger than %d KiB", maxDefinition>>10)
		return Definition{}, f.sortedProblems()
	}
	head, body, err := format.SplitFrontMatter(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")))
	if err != nil {
		f.addProblem(1, "%s", err)
		return Definition{}, f.sortedProblems()
	}
	d := Definition{Instructions: strings.TrimSpace(string(body))}
	// From here on a problem is on a line of the front matter. An empty one has the two lines of
	// its marks.
	if f.lines = 1 + bytes.Count(head, []byte("\n")); len(head) == 0 {
		f.lines = 2
	}
	root := f.root(head)
	if root == nil && len(f.problems) > 0 {
		return d, f.sortedProblems()
	}
	// Front matter without keys is read as a mapping without keys, so that the missing name is
	// reported.
	if root == nil {
		root = &yaml.Node{Kind: yaml.MappingNode}
	}
	f.definition(root, &d, file)
	d.Warnings = f.warnings
	return d, f.sortedProblems()
}

// definition reads the keys of the front matter into d, checks its name and the names of its
// skills, and sets the defaults. file is as in parse.
func (f *parser) definition(root *yaml.Node, d *Definition, file string) {
	var named []item
	// at has the line of each key.
	at := f.fields("", root, f.keys(d, &named))
	line := func(key string) int { return max(at[key], 1) }
	base := strings.TrimSuffix(file, ".md")
	switch {
	case d.Name != "" && !IsName(d.Name) && IsName(base):
		f.warn(line("name"), "name %q: want %s; the file's name is used", d.Name, nameForm)
		d.Name = base
	case !IsName(d.Name):
		f.addProblem(line("name"), "name %q: want %s", d.Name, nameForm)
	case file != "" && d.Name != base:
		f.warn(line("name"), "name %q differs from the file's name, %s; the agent is called %s", d.Name, file, d.Name)
	}
	if f.planMode && d.Permissions.Preset == "" {
		d.Permissions.Preset = "read_only"
	}
	d.Description = cmp.Or(d.Description, firstSentence(d.Instructions), d.Name)
	// The words of the message are a part of the format.
	for _, one := range named {
		if f.loader.Skills != nil && !slices.Contains(f.loader.Skills, one.text) { // the words are the spec's
			f.addProblem(one.line, "Agent '%s' references unknown skill: %s%s", d.Name, one.text, suggest(one.text, f.loader.Skills))
		}
	}
	if d.MaxTurns == 0 && !d.Program.IsZero() {
		d.MaxTurns = programTurns
	}
	d.MaxTurns = cmp.Or(d.MaxTurns, defaultMaxTurns)
	if len(d.Accepts) == 0 {
		d.Accepts = []string{"task"}
	}
	// An agent can also be addressed with the name of its definition.
	if !slices.Contains(d.Accepts, d.Name) {
		d.Accepts = append(d.Accepts, d.Name)
	}
}

// keys returns the keys of front matter, which are read into d. named gets the items of skills.
func (f *parser) keys(d *Definition, named *[]item) map[string]field {
	all := map[string]field{
		"name":        f.text("name", &d.Name),
		"description": f.description(&d.Description),
		"model":       f.model(&d.Model),
		"acp":         programField(f, &d.Program),
		"accepts":     f.list("accepts", "[task]", func(all []item) { d.Accepts = f.accepts(all) }),
		"tools":       f.tools(&d.Tools),
		"skills":      f.words("skills", "[release-notes]", func(all []item) { *named, d.Skills = all, texts(all) }),
		"permissions": f.permissions(&d.Permissions),
		"guardrail":   f.guardrail(&d.Guardrail),
		"sandbox":     sandboxField(&f.reader, &d.Sandbox),
		"budget":      budgetField(&f.reader, &d.Budget),
		"max_turns":   f.number("max_turns", 0, &d.MaxTurns),
		"output":      outputField(f.addProblem, &d.Output),
		"thinking":    thinkingField(&f.reader, &d.Thinking),
		"effort":      f.word("effort", []string{"low", "medium", "high"}, &d.Effort),
		"temperature": temperatureField(f.addProblem, &d.Temperature),
		"keep":        f.boolean("keep", &d.Keep),
		"placement":   f.word("placement", placement.Strategies(), &d.Placement),
		"repeatable":  f.boolean("repeatable", &d.Repeatable),
		"worktree":    f.boolean("worktree", &d.Worktree),
	}
	maps.Copy(all, f.claudeKeys(d))
	return all
}

// perceptionName is the syntax of perceptions in package community.
var perceptionName = lazyregexp.New(`^[A-Za-z0-9._-]{1,64}$`)

// accepts checks the names of perceptions, and returns them. A name with a problem is returned,
// too: the definition is not used then.
func (f *parser) accepts(all []item) []string {
	names := texts(all)
	for i, one := range all {
		switch {
		case !perceptionName().MatchString(one.text):
			f.addProblem(one.line, "accepts %q: a perception is up to 64 letters, digits and . _ -", one.text)
		case slices.Index(names, one.text) < i:
			f.addProblem(one.line, "accepts %q is there twice", one.text)
		}
	}
	return names
}

// model returns a function that reads a specification of a model, or a list of them, which becomes
// one text with commas. The models are tried in that order (package retry).
func (f *parser) model(to *string) field {
	one := f.text("model", to)
	several := f.list("model", "[anthropic:NAME, openai:NAME]", func(all []item) {
		*to = strings.Join(texts(slices.DeleteFunc(all, func(one item) bool { return !f.usable(one) })), ",")
	})
	read := func(p pair) {
		if p.value.Kind == yaml.SequenceNode {
			several.read(p)
			return
		}
		if one.read(p); !f.usable(item{*to, p.value.Line}) {
			*to = ""
		}
	}
	return field{read, anyOf(one.schema, several.schema)}
}

const (
	// allTools stands for all tools.
	allTools = "*"
	// presetMark is the prefix of a preset's name, as in tool.Expand.
	presetMark = "preset:"
)

// tools returns a function that reads the list of tools. "*" leaves it nil, which means all tools;
// an empty list means none.
func (f *parser) tools(to *[]string) field {
	list := f.words("tools", `[Read, "preset:web"], or "*" for all`, func(all []item) {
		*to = make([]string, 0, len(all))
		for _, one := range all {
			*to = append(*to, f.tool(one))
		}
	})
	read := func(p pair) {
		if p.value.Kind != yaml.ScalarNode || p.value.Value != allTools {
			list.read(p)
		}
	}
	return field{read, anyOf(wordSchema(allTools), list.schema)}
}

// mcpName matches mcp__SERVER__TOOL, and patterns that end in *.
var mcpName = lazyregexp.New(`^mcp__([A-Za-z0-9_-]*\*|[A-Za-z0-9_-]+__[A-Za-z0-9_-]+)$`)

// tool checks the name of one tool, or of a preset, and returns the name that it has here. A tool that does not exist is a
// warning, as the agent has less then, unless another one was probably meant.
func (f *parser) tool(one item) string {
	name := f.loader.sameTool(one.text)
	preset, isPreset := strings.CutPrefix(name, presetMark)
	var presets []string
	for _, p := range tool.Presets() {
		presets = append(presets, p.Name)
	}
	near := f.loader.nearest(one.text)
	switch {
	case name == allTools:
		f.addProblem(one.line, `tools: "*" stands alone, as tools: "*", and means all there are`)
	case isPreset && !slices.Contains(presets, preset):
		f.addProblem(one.line, "tools: there is no preset %q%s", preset, suggest(preset, presets))
	case isPreset:
	case strings.HasPrefix(name, MCPPrefix):
		f.server(item{name, one.line})
	case strings.Contains(name, "("):
		f.warn(one.line, "tools: %q is a rule and no name of a tool: it is left out; give the tool, and write the rule under permissions", name)
	case f.loader.Tools == nil || slices.Contains(f.loader.Tools, name):
	case slices.Contains(presets, name):
		f.addProblem(one.line, "tools: there is no tool %q; did you mean %q?", name, presetMark+name)
	case near != "":
		f.addProblem(one.line, "tools: there is no tool %q%s", name, near)
	default:
		f.warn(one.line, "tools: there is no tool %q here: it is left out", name)
	}
	return name
}

// server checks a name or pattern of tools of an MCP server. Only the server's name can be checked:
// its tools are unknown until it runs.
func (f *parser) server(one item) {
	if !mcpName().MatchString(one.text) {
		f.addProblem(one.line, "tools: %q is no name of MCP tools; they are mcp__SERVER__TOOL, or mcp__SERVER__* for all of a server", one.text)
		return
	}
	name, _, whole := strings.Cut(strings.TrimPrefix(one.text, MCPPrefix), "__")
	if !whole || f.loader.Servers == nil || slices.Contains(f.loader.Servers, name) {
		return
	}
	if near := visible.Suggest(name, f.loader.Servers); near != "" {
		f.addProblem(one.line, "tools: there is no MCP server %q%s", name, near)
		return
	}
	f.warn(one.line, "tools: there is no MCP server %q here: %s is left out", name, one.text)
}

// sentence matches a paragraph up to the end of its first sentence. A heading does not match, and a
// full stop inside a word, as in go.mod, does not end a sentence.
var sentence = lazyregexp.New(`(?m)^[^#\s](?:[^.!?\n]|[.!?]\S|\n[^\n])*[.!?]?`)

// firstSentence returns the first sentence of a Markdown text on one line, for a definition without
// a description. It skips headings, and shortens a sentence of more than about 1024 bytes.
func firstSentence(text string) string {
	return tool.Shorten(strings.Join(strings.Fields(sentence().FindString(text)), " "), 1024)
}

// maxThinking limits the tokens for thinking. The schema of model.chat has the same maximum, for
// models of other nodes.
const maxThinking = 100_000

// defaultThinking is the number of tokens for `thinking: true`: four times the minimum of the
// Messages wire, enough to plan a step.
const defaultThinking = 4096

// thinkingField returns a function that reads true, false, a number of tokens, or a mapping with type and budget_tokens as in
// the Messages API of Anthropic. It sets to to -1 for false: 0 would keep the setting of the model.
func thinkingField(r *reader, to *int) field {
	kind := "enabled"
	keys := map[string]field{
		"type":          r.word("thinking.type", []string{"enabled", "disabled"}, &kind),
		"budget_tokens": thinkingTokensField(r, "thinking.budget_tokens", to),
	}
	plain := thinkingTokensField(r, "thinking", to)
	read := func(p pair) {
		var on bool
		switch n := p.value; {
		case n.Kind == yaml.MappingNode:
			r.fields("thinking", n, keys)
			switch {
			case kind == "disabled":
				*to = -1
			case *to == 0:
				*to = defaultThinking
			}
		case n.Kind == yaml.ScalarNode && n.Tag == "!!bool" && n.Decode(&on) == nil:
			if *to = -1; on {
				*to = defaultThinking
			}
		default:
			plain.read(p)
		}
	}
	return field{read, anyOf(booleanSchema(), plain.schema, mappingSchema(keys))}
}

// thinkingTokensField returns a function that reads a number of tokens from 1 to maxThinking.
func thinkingTokensField(r *reader, name string, to *int) field {
	read := func(p pair) {
		if n := p.value; n.Kind != yaml.ScalarNode || n.Decode(to) != nil || *to < 1 || *to > maxThinking {
			r.addProblem(n.Line, "%s is true, false, or how many tokens, from 1 to %d", name, maxThinking)
		}
	}
	return field{read, &jsonschema.Schema{Type: "integer", Minimum: jsonschema.Ptr(1.0), Maximum: jsonschema.Ptr(float64(maxThinking))}}
}
