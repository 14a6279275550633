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
	"symbio/agent/workspace/transfer"
	"symbio/security/permission"
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
	commands := shell.Config{Policy: policy, Box: func(ctx context.Context) (*sandbox.Box, error) {
		return runner.Box(c.Settings.Sandbox, tool.IsConstrained(ctx))
	}}
	commands.Look = func(context.Context) (*sandbox.Box, error) { return runner.Box(c.Settings.Sandbox, true) }
	if held := c.Settings.Sandbox; held.IsOff() {
		held.Preset = "standard"
		commands.Git.Box = func(context.Context) (*sandbox.Box, error) { return runner.Box(held, true) }
		if commands.Git.Policy, err = held.Policy(c.Workspace(), c.Home); err != nil {
			return nil, nil, err
		}
	}
	return c.openDirectory(builtin.Config{Dir: c.Workspace(), Directories: c.Settings.Directories, Commands: commands}, registry, fetch)
}

// openCheckout opens a workspace that was made for one agent, as openWorkspace
// does the node's. Its commands run in the sandbox also where that is switched
// off for others, and of the user's files they see only the workspace, a home
// directory of their own, and what the lender's configuration adds to read.
func (c Config) openCheckout(at *transfer.Checkout, runner *exec.Runner, registry *skills.Registry, fetch func(ctx context.Context, on, name string) (share.Origin, error)) (*builtin.Workspace, []tool.Tool, error) {
	policy, err := c.Settings.Sandbox.Policy(at.Dir, c.Home)
	if err != nil {
		return nil, nil, err
	}
	files, err := sandbox.Custom(c.Settings.Workspaces().ReadPaths(c.Home), []string{at.Dir, at.Home})
	if err != nil {
		return nil, nil, err
	}
	if len(policy.Files.Write) == 0 { // the sandbox lets commands only read
		files = sandbox.Files{Read: append(files.Read, files.Write...)}
	}
	policy.Files = files
	commands := shell.Config{Policy: policy, Env: []string{"HOME=" + at.Home}, Box: func(context.Context) (*sandbox.Box, error) {
		return runner.Box(c.Settings.Sandbox, true)
	}}
	commands.Look = commands.Box
	return c.openDirectory(builtin.Config{Dir: at.Dir, Commands: commands}, registry, fetch)
}

// openDirectory opens a directory for agents, and completes its configuration.
func (c Config) openDirectory(at builtin.Config, registry *skills.Registry, fetch func(ctx context.Context, on, name string) (share.Origin, error)) (_ *builtin.Workspace, _ []tool.Tool, err error) {
	if at.Search, err = c.Settings.Web.Search.Searcher(c.Getenv); err != nil {
		return nil, nil, err
	}
	if registry != nil {
		at.Commands.SkillDirs = registry.Dirs
	}
	workspace, err := builtin.New(at)
	if err != nil {
		return nil, nil, fmt.Errorf("the workspace: %w", err)
	}
	all := slices.Concat(workspace.Tools(), c.Tools)
	if registry != nil {
		scripts := shell.NewScripts(at.Commands)
		scripts.Work = c.Settings.Sandbox.Scripts == string(permission.BoxWork)
		all = append(all, peerskill.Tool(fetch), skill.ScriptTool(registry, scripts))
	}
	return workspace, all, nil
}
