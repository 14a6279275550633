// Package skill holds the tools by which a model takes skills from the node's registry: activate_skill,
// skill_load, skill_search, deactivate_skill.
//
// The one idea: whatever a model writes, a name or a path, is resolved to one skill of the catalog
// before the guard is asked, so that a rule about a skill's name cannot be got around, and the
// skill that runs is the one that was judged.
//
// The tools are there only while the catalog has something for this agent, and the schema names what
// that is. They grant nothing: the registry does, to the agent that took the skill.
package skill

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"symbio/agent/tool"
	"symbio/skills"
)

// Registry is the part of the skill registry that the tools use; *skills.Registry is one.
type Registry interface {
	Now() *skills.Snapshot
	Activate(ctx context.Context, w skills.ActivateRequest) (skills.Activation, error)
	Deactivate(ctx context.Context, agent, name string) error
}

// The names of the tools.
const (
	Activate   = "activate_skill"
	Load       = "skill_load"
	Search     = "skill_search"
	Deactivate = "deactivate_skill"
)

// Names returns the names of all tools of this package.
func Names() []string { return []string{Activate, Load, Search, Deactivate} }

// Default returns the tools that an agent has unless its configuration chooses others.
func Default() []string { return []string{Activate, Search} }

// Config sets up the tools of one agent.
type Config struct {
	Registry Registry
	Agent    string
	// Names are the tools that the agent has. Default: Default().
	Names []string
	// Shown selects the skills that the agent is shown, as in its system prompt.
	Shown skills.PromptOptions
	// DefaultLimit and MaxLimit are how many skills a search returns by default and at most.
	// Default: 8 and 50, the defaults of skills.Query.
	DefaultLimit, MaxLimit int
	// Epoch counts how often the conversation was compacted; see skills.ActivateRequest. Default:
	// always 0.
	Epoch func() int
	// OnActivated is called with the name of each skill that the model activates. Default: not
	// called.
	OnActivated func(name string)
	// Fork runs a skill with context: fork in a sub-agent, in place of its activation, and returns
	// the answer. Default: such a skill is activated like others.
	Fork func(ctx context.Context, want skills.ActivateRequest, one skills.Skill) (string, error)
}

// Tools returns the agent's tools for skills.
func Tools(cfg Config) []tool.Tool {
	cfg.DefaultLimit = cmp.Or(cfg.DefaultLimit, 8)
	cfg.MaxLimit = cmp.Or(cfg.MaxLimit, 50)
	if cfg.Names == nil {
		cfg.Names = Default()
	}
	if cfg.Epoch == nil {
		cfg.Epoch = func() int { return 0 }
	}
	if cfg.OnActivated == nil {
		cfg.OnActivated = func(string) {}
	}
	all := map[string]tool.Tool{
		Activate: newActivationTool(cfg, activateKind.New(never[activateArgs]), "skillName"), Load: newActivationTool(cfg, loadKind.New(never[loadArgs]), "name"),
		Search: conditional{searchTool(cfg), cfg}, Deactivate: conditional{deactivateTool(cfg), cfg},
	}
	var tools []tool.Tool
	for _, name := range Names() {
		if slices.Contains(cfg.Names, name) {
			tools = append(tools, all[name])
		}
	}
	return tools
}

// offered reports whether there is a skill for the agent.
func (c Config) offered() bool { return slices.ContainsFunc(c.Registry.Now().Skills, c.shows) }

// shows reports whether the agent may know of a skill.
func (c Config) shows(s skills.Skill) bool {
	return s.ForModels() && (c.Shown.Omit == nil || !c.Shown.Omit(s))
}

// conditional is a tool that is offered while there is a skill for the agent.
type conditional struct {
	tool.Tool
	cfg Config
}

func (c conditional) Offered() bool { return c.cfg.offered() }

// Unknown returns an error that names the first name in a list that is not a tool of this package;
// nil if all are.
func Unknown(names []string) error {
	for _, n := range names {
		if !slices.Contains(Names(), n) {
			return fmt.Errorf("there is no tool %q for skills; there are %v", n, Names())
		}
	}
	return nil
}
