// Package skill holds the tools by which a model takes skills from the node's registry: activate_skill,
// skill_load, skill_search, deactivate_skill.
//
// The one idea: whatever a model writes, a name or a path, is resolved to one skill of the catalog before
// the guard is asked, so that a rule about a skill's name cannot be got around, and the skill that runs
// is the one that was judged.
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

// Registry is what the tools need of the registry of skills; *skills.Registry is one.
type Registry interface {
	Now() *skills.Snapshot
	Activate(ctx context.Context, w skills.ActivateRequest) (skills.Activation, error)
	Deactivate(ctx context.Context, agent, name string) error
}

// The tools.
const (
	Activate   = "activate_skill"
	Load       = "skill_load"
	Search     = "skill_search"
	Deactivate = "deactivate_skill"
)

// Names are all the tools there are.
func Names() []string { return []string{Activate, Load, Search, Deactivate} }

// Default are the tools that a model has if nobody chose others (skills.md C20).
func Default() []string { return []string{Activate, Search} }

// Config sets up the tools of one agent.
type Config struct {
	Registry Registry
	Agent    string
	// Names are the tools it has. Default: Default().
	Names []string
	// Shown says which skills the agent is shown, as in its system prompt.
	Shown skills.PromptOptions
	// DefaultLimit and MaxLimit are how many skills a search returns, unless it says, and at most. Default 8
	// and 50, those of skills.Query.
	DefaultLimit, MaxLimit int
	// Epoch numbers the times that the conversation was shortened; see skills.ActivateRequest. Default: never.
	Epoch func() int
	// Took is told the name of each skill that the model took. Default: nobody.
	OnActivated func(name string)
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
		Activate: newActivationTool(cfg, activateTool(), "skillName"), Load: newActivationTool(cfg, loadTool(), "name"),
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
func (c Config) offered() bool {
	return slices.ContainsFunc(c.Registry.Now().Skills, c.shows)
}

// shows reports whether the agent may know of a skill.
func (c Config) shows(s skills.Skill) bool {
	return s.ForModels() && (c.Shown.Omit == nil || !c.Shown.Omit(s))
}

// conditional is a tool that is there while there is a skill.
type conditional struct {
	tool.Tool
	cfg Config
}

func (c conditional) Offered() bool { return c.cfg.offered() }

// Unknown returns the names in a tool list that are of no tool here, as an error; nil when all are.
func Unknown(names []string) error {
	for _, n := range names {
		if !slices.Contains(Names(), n) {
			return fmt.Errorf("there is no tool %q for skills; there are %v", n, Names())
		}
	}
	return nil
}
