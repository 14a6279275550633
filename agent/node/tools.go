package node

import (
	"context"
	"fmt"
	"slices"

	"symbio/agent/node/exec"
	"symbio/agent/tool"
	"symbio/agent/tool/builtin"
	"symbio/agent/tool/peerskill"
	"symbio/agent/tool/shell"
	"symbio/agent/tool/skill"
	"symbio/security/sandbox"
	"symbio/skills"
	"symbio/skills/share"
)

// openWorkspace opens the workspace and returns it with the tools that every
// agent can have: those for files, commands and the web, those of Config.Tools,
// and the one that fetches skills. registry may be nil; fetch gets a skill of
// another node. The caller closes the workspace.
func (c Config) openWorkspace(runner *exec.Runner, registry *skills.Registry, fetch func(ctx context.Context, on, name string) (share.Origin, error)) (*builtin.Workspace, []tool.Tool, error) {
	policy, err := c.Settings.Sandbox.Policy(c.Workspace(), c.Home)
	if err != nil {
		return nil, nil, err
	}
	search, err := c.Settings.Web.Search.Searcher(c.Getenv)
	if err != nil {
		return nil, nil, err
	}
	commands := shell.Config{Policy: policy, Box: func(ctx context.Context) (*sandbox.Box, error) {
		return runner.Box(c.Settings.Sandbox, tool.IsConstrained(ctx))
	}}
	if registry != nil {
		commands.SkillDirs = registry.Dirs
	}
	workspace, err := builtin.New(builtin.Config{Dir: c.Workspace(), Directories: c.Settings.Directories, Commands: commands, Search: search})
	if err != nil {
		return nil, nil, fmt.Errorf("the workspace: %w", err)
	}
	all := slices.Concat(workspace.Tools(), c.Tools)
	if registry != nil {
		all = append(all, peerskill.Tool(fetch), skill.ScriptTool(registry, shell.NewScripts(commands)))
	}
	return workspace, all, nil
}
