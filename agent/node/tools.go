package node

import (
	"context"
	"slices"

	"symbio/agent/node/exec"
	"symbio/agent/tool"
	"symbio/agent/tool/builtin"
	"symbio/agent/tool/peerskill"
	"symbio/agent/tool/shell"
	"symbio/agent/tool/web"
	"symbio/security/sandbox"
	"symbio/skills"
	"symbio/skills/share"
)

// tools are those that belong to no agent in particular. registry may be nil; fetch gets a skill of another node.
func (c Config) tools(files *builtin.Workspace, runner *exec.Runner, registry *skills.Registry, fetch func(ctx context.Context, on, name string) (share.Origin, error)) ([]tool.Tool, error) {
	policy, err := c.Settings.Sandbox.Policy(files.Dir(), c.Home)
	if err != nil {
		return nil, err
	}
	commands := shell.Config{Policy: policy, Box: func(ctx context.Context) (*sandbox.Box, error) {
		return runner.Box(c.Settings.Sandbox, tool.Narrowed(ctx))
	}}
	if registry != nil {
		commands.SkillDirs = registry.Dirs
	}
	all := slices.Concat(files.Tools(), shell.Tools(commands), []tool.Tool{web.New(web.Config{}).Tool()}, c.Tools)
	search, err := c.Settings.Web.Search.Searcher()
	if err != nil {
		return nil, err
	}
	if search != nil {
		all = append(all, web.SearchTool(search))
	}
	if registry != nil {
		all = append(all, peerskill.Tool(fetch))
	}
	return all, nil
}
