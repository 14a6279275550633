package definition

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"symbio/agent/budget"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/agent/tool/guardrail"
	"symbio/internal/security/lazyregexp"
	"symbio/security/permission"
	"symbio/skills"
)

// Definition describes a kind of agent: the front matter and the text of its Markdown file.
type Definition struct {
	// Name identifies the definition, as nameForm says; its file usually is NAME.md.
	Name        string
	Description string
	// Model replaces the node's model; "" means the node's. Several names, separated by commas, are
	// tried in order; see package retry.
	Model string
	// Program does the work in the place of a model, if it is set.
	Program Program
	// Accepts are the perceptions with which the agent receives tasks. Parse adds the name of the
	// definition. Default: task.
	Accepts []string
	// Tools are its tools, by name or by preset (tool.Presets, such as preset:files);
	// mcp__SERVER__* stands for all tools of an MCP server. nil means all tools. Permissions decide
	// which calls may run.
	Tools []string
	// Skills are activated before the first task.
	Skills []string
	// Permissions restrict what the node's configuration allows; they never extend it.
	Permissions permission.Config
	// Guardrail judges each call of its agents, of their sub-agents, and of local agents that run a
	// task for them.
	Guardrail guardrail.Config
	// Sandbox restricts what commands may do, for the same calls.
	Sandbox Sandbox
	// Budget are limits in addition to agent.Order's; the smaller of each counts. A zero
	// field sets no limit.
	Budget budget.Limits
	// MaxTurns limits the model's turns for one task. Default: 32.
	MaxTurns int
	// Output is what an answer has to fit: the JSON schema under the key output; nil = any text. Copies that an agent
	// spawns of itself answer in any text.
	Output *llm.Form
	// Thinking is the number of tokens that the model may use for thinking before each answer, if
	// it can (llm.Request.Thinking). 0 keeps the model's setting; a negative value switches
	// thinking off.
	Thinking int
	// Effort is how much the model thinks: low, medium or high, if it can (llm.Request.Effort). ""
	// keeps the model's setting.
	Effort string
	// Temperature is how much chance there is in the model's answers, if it takes one
	// (llm.Request.Temperature). nil keeps the model's setting.
	Temperature *float64
	// Keep is true if agents that a person spawns live again when their node is started again.
	Keep bool
	// Placement says where sub-agents of the definition run if the model names no node: a
	// placement.Strategy; "" = the node's.
	Placement string
	// Repeatable is true if a task can be started anew when the node of its agent is lost: doing it
	// twice does no harm.
	Repeatable bool
	// Worktree is true if each agent works in a worktree of its own, made of the last commit, and its changes are put on a branch.
	Worktree bool
	// Instructions are the text below the front matter, the start of the system prompt.
	Instructions string
	// File is the path that it was read from; "" = no file.
	File string
	// Warnings say what was read otherwise than its author may think, such as an unknown key.
	Warnings []Problem
}

// defaultMaxTurns is enough for a long task; an agent that needs more turns is usually stuck in a
// loop.
const defaultMaxTurns = 32

// maxDefinition limits a definition file, in bytes, because its text goes into every prompt.
const maxDefinition = 256 << 10

// maxName limits the name of a definition, in characters.
const maxName = 64

var namePattern = lazyregexp.New(`^[A-Za-z0-9]+([._-][A-Za-z0-9]+)*$`)

// nameForm says what IsName accepts.
const nameForm = "up to 64 letters and digits, with single hyphens, dots and underscores between them"

// IsName reports whether name is valid for a definition, as nameForm says.
func IsName(name string) bool { return len(name) <= maxName && namePattern().MatchString(name) }

// General returns the agent of a node that has no definitions.
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

// MCPPrefix begins the names of the tools of MCP servers, which come and go: mcp__SERVER__TOOL.
const MCPPrefix = "mcp__"

// HasTool reports whether the definition names a tool: by its name, by a preset, or as
// mcp__SERVER__*. A definition without a list of tools has all of them.
func (d Definition) HasTool(name string) bool {
	return d.Tools == nil || slices.ContainsFunc(d.ToolNames(), func(n string) bool {
		server, isPattern := mcpPattern(n)
		return n == name || isPattern && strings.HasPrefix(name, server)
	})
}

// ToolNames returns the names of tools in the definition, with presets expanded; nil means all
// tools.
func (d Definition) ToolNames() []string {
	if d.Tools == nil {
		return nil
	}
	return tool.Expand(d.Tools)
}

// MayHave reports whether the definition may have a tool whose name begins with prefix, such as
// mcp__SERVER__. It is used to decide whether an MCP server has to be started.
func (d Definition) MayHave(prefix string) bool {
	return d.Tools == nil || slices.ContainsFunc(d.Tools, func(n string) bool {
		server, isPattern := mcpPattern(n)
		return strings.HasPrefix(n, prefix) || isPattern && strings.HasPrefix(prefix, server)
	})
}

// mcpPattern returns the prefix of the tool names that a pattern such as mcp__SERVER__* matches.
func mcpPattern(name string) (begin string, ok bool) {
	begin, ok = strings.CutSuffix(name, "*")
	return begin, ok && strings.HasPrefix(begin, MCPPrefix)
}

// CheckSkills returns an error that names each skill of the definition which the catalog does not
// have.
func (d Definition) CheckSkills(c skills.Catalog) error {
	var unknown []error
	for _, name := range d.Skills {
		if !c.Contains(name) {
			//lint:ignore ST1005 the text is the spec's
			unknown = append(unknown, fmt.Errorf("Agent '%s' references unknown skill: %s", d.Name, name))
		}
	}
	return errors.Join(unknown...)
}

// Policy returns the policy by which the definition restricts its agents; false if it has no rules.
// A definition that only denies leaves everything else to the other links of the chain.
func (d Definition) Policy() (permission.Policy, bool) {
	c := d.Permissions
	if c.Preset == "" && c.Default == "" && len(c.Allow)+len(c.Deny)+len(c.FinalDeny)+len(c.Override) == 0 {
		return permission.Policy{}, false
	}
	if c.Preset == "" {
		c.Preset = "none" // the person is asked about every other call
		if c.Default == "" && len(c.Allow) == 0 {
			c.Preset = "permissive"
		}
	}
	policy, err := c.Policy()
	if err != nil {
		return permission.Policy{}, true // it was checked when the definition was read; else it denies
	}
	return policy, true
}
