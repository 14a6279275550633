package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"symbio/agent/tool"
	"symbio/agent/tool/guardrail"
	"symbio/security/permission"
)

// Definition is what an agent is: the front matter and the text of its Markdown file
// (spec: skills-orchestration.md, agents). What it says of permissions, guardrail, sandbox and budget only takes away
// from what the node gives its agents.
type Definition struct {
	// Name identifies the definition: letters, digits, hyphens; its file is NAME.md.
	Name        string
	Description string
	// Model overrides the node's; "" = the node's. Several with commas between them are a list, see llm.First.
	Model string
	// Accepts are the perceptions it takes tasks by. Of one that was read from a file the name is among them. Default: task.
	Accepts []string
	// Tools are the tools it has, by name or by preset (tool.Presets, such as preset:files), those of MCP servers also
	// as mcp__SERVER__*; nil = all there are. What it may do with them is a matter of permission.
	Tools []string
	// Skills are activated from the start.
	Skills []string
	// Permissions narrow what the node's configuration allows; they never widen it.
	Permissions permission.Config
	// Guardrail is around each call of its agents, of their sub-agents, and of what works for them on this node.
	Guardrail guardrail.Config
	// Sandbox narrows what commands may do, for the same calls.
	Sandbox Sandbox
	// Budget are limits beside those of the order: of each the smaller counts. Zero fields say nothing.
	Budget Limits
	// MaxTurns is how often the model may be asked for one task. Default 32.
	MaxTurns int
	// Thinking is how many tokens the model may think before each answer, where it can (llm.Request.Thinking). 0 = as
	// the model was set up; below 0 = not at all.
	Thinking int
	// Instructions are the text below the front matter, the start of the system prompt.
	Instructions string
	// File is what it was read from; "" = no file.
	File string
}

// defaultMaxTurns is what a long task of real agents needs; a loop that turns more often is stuck.
const defaultMaxTurns = 32

// maxDefinition bounds a definition file, in bytes; the text goes into every prompt.
const maxDefinition = 256 << 10

var definitionName = regexp.MustCompile(`^[A-Za-z0-9]+(-[A-Za-z0-9]+)*$`)

// General is the agent of a node that has no definitions.
func General() Definition {
	return Definition{
		Name:        "general",
		Description: "Does a task with the tools it has, and spawns helpers for parts that are independent.",
		Accepts:     []string{"task"},
		MaxTurns:    defaultMaxTurns,
		Instructions: "You do the task you are given, with the tools you have, and answer with the result.\n" +
			"Spawn helpers with replicate_agent when parts of the task are independent, each with its part as the task, and read the results with wait_agents.\n" +
			"When a tool refuses, do not try to get round it: say what you could not do.",
	}
}

// Problem is something that is wrong with a definition, and where.
type Problem struct {
	File   string // "" when the text is of no file
	Line   int    // of the text, from 1
	Reason string
}

// Error is FILE:LINE: REASON.
func (p *Problem) Error() string {
	if p.File == "" {
		return fmt.Sprintf("line %d: %s", p.Line, p.Reason)
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Reason)
}

// Problems are those that an error of this package joins; none of another error.
func Problems(err error) (all []*Problem) {
	if p, ok := err.(*Problem); ok { // not what it wraps: that is joined
		return []*Problem{p}
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range several.Unwrap() {
			all = append(all, Problems(one)...)
		}
	}
	return all
}

// Known is what a definition may name. Of what is not known, every name is taken. The zero Known knows nothing but
// presets and rules.
type Known struct {
	// Tools are the names of tools, beside those of MCP servers; nil = not known.
	Tools []string
	// Servers are the names of MCP servers as they stand in the names of their tools; nil = not known.
	Servers []string
	// Skills are the names of skills; nil = not known.
	Skills []string
	// Model says what is wrong with the specification of one model; nil = not known.
	Model func(spec string) error
}

// ParseDefinition reads a definition. The error joins a *Problem for each thing that is wrong.
func ParseDefinition(text []byte) (Definition, error) {
	d, problems := Known{}.Parse(text)
	return d, joined(problems)
}

// LoadDefinitions reads every NAME.md of a directory, in the order of their names. Each file that
// cannot be used is missing, and the error joins a *Problem for each thing that is wrong; the others are still returned.
func LoadDefinitions(dir string) ([]Definition, error) { return Known{}.Load(dir) }

// Load is LoadDefinitions of what is known.
func (k Known) Load(dir string) ([]Definition, error) {
	files, err := filepath.Glob(filepath.Join(globbed(dir), "*.md"))
	if err != nil {
		return nil, fmt.Errorf("agents in %s: %w", dir, err)
	}
	var all []Definition
	var wrong []Problem
	for _, file := range files {
		d, problems := k.Read(file)
		if len(problems) == 0 {
			all = append(all, d)
		}
		wrong = append(wrong, problems...)
	}
	return all, joined(wrong)
}

// globbed is a directory as a pattern of filepath.Glob.
func globbed(dir string) string {
	if os.PathSeparator == '\\' {
		return dir // it cannot be said there
	}
	return regexp.MustCompile(`[*?\[\\]`).ReplaceAllString(dir, `\$0`)
}

// Read reads one file. Its name has to be that of the definition. A definition with problems is not to be used.
func (k Known) Read(file string) (Definition, []Problem) {
	text, err := definitionText(file)
	if err != nil {
		return Definition{}, []Problem{{file, 1, err.Error()}}
	}
	d, problems := k.parse(text, filepath.Base(file))
	for i := range problems {
		problems[i].File = file
	}
	d.File = file
	d.Permissions, d.Guardrail = d.Permissions.In(file), d.Guardrail.In(file)
	return d, problems
}

func definitionText(file string) ([]byte, error) {
	info, err := os.Stat(file)
	var bad *os.PathError
	switch {
	case errors.As(err, &bad):
		return nil, bad.Err
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxDefinition:
		return nil, fmt.Errorf("not a file of up to %d KiB", maxDefinition>>10)
	}
	return os.ReadFile(file)
}

func joined(problems []Problem) error {
	errs := make([]error, len(problems))
	for i := range problems {
		errs[i] = &problems[i]
	}
	return errors.Join(errs...)
}

// has says whether the definition names a tool: each does that names none. Who may make sub-agents has the tools for them.
func (d Definition) has(name string) bool {
	if d.Tools == nil {
		return true
	}
	named := tool.Expand(d.Tools)
	return slices.Contains(named, name) || forChildren(name) && slices.Contains(named, "replicate_agent")
}

// ToolNames are the names of tools that it names, those of presets in their place; nil = all there are.
func (d Definition) ToolNames() []string {
	if d.Tools == nil {
		return nil
	}
	return tool.Expand(d.Tools)
}

// MayHave says whether its agents may have a tool whose name begins so, as those of an MCP server do.
func (d Definition) MayHave(prefix string) bool {
	return d.Tools == nil || slices.ContainsFunc(d.Tools, func(name string) bool {
		head, all := strings.CutSuffix(name, "*")
		return strings.HasPrefix(name, prefix) || all && strings.HasPrefix(head, moreTools) && strings.HasPrefix(prefix, head)
	})
}
