// Package tools opens the directories in which the agents of a node work, with the tools that they have there.
package tools

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"io"
	"symbio/agent"
	"symbio/agent/node/config"
	"symbio/agent/tool"
	"symbio/agent/tool/builtin"
	"symbio/agent/tool/skill"
	"symbio/internal/agent/node/exec"
	"symbio/internal/agent/node/guests"
	"symbio/internal/agent/team"
	"symbio/internal/agent/tool/peerskill"
	"symbio/internal/agent/tool/shell"
	"symbio/internal/agent/workspace/transfer"
	"symbio/internal/skills/share"
	"symbio/security/permission"
	"symbio/security/sandbox"
	"symbio/skills"
)

// Config says where agents work, and with what.
type Config struct {
	Settings config.Config
	// Dir is the workspace, Home the user's home directory.
	Dir, Home string
	Getenv    func(string) string
	// More are tools beside the built-in ones.
	More   []tool.Tool
	Runner *exec.Runner
	Skills *skills.Registry // nil = off
	// Fetch gets a skill of another node.
	Fetch func(ctx context.Context, on, name string) (share.Origin, error)
}

// Open opens the workspace and returns the tools that every
// agent can have in it: tools for files, commands and the web, Config.More,
// and the one that fetches skills. The caller closes the workspace.
func Open(c Config) ([]tool.Tool, io.Closer, error) {
	policy, err := c.Settings.Sandbox.Policy(c.Dir, c.Home)
	if err != nil {
		return nil, nil, err
	}
	commands := shell.Config{Policy: policy, Box: func(ctx context.Context) (*sandbox.Box, error) {
		return c.Runner.Box(c.Settings.Sandbox, tool.IsConstrained(ctx))
	}}
	commands.Look = func(context.Context) (*sandbox.Box, error) { return c.Runner.Box(c.Settings.Sandbox, true) }
	if held := c.Settings.Sandbox; held.IsOff() {
		held.Preset = "standard"
		commands.Git.Box = func(context.Context) (*sandbox.Box, error) { return c.Runner.Box(held, true) }
		if commands.Git.Policy, err = held.Policy(c.Dir, c.Home); err != nil {
			return nil, nil, err
		}
	}
	return c.openDirectory(builtin.Config{Dir: c.Dir, Directories: c.Settings.Directories, Commands: commands})
}

// Workspaces returns the workspaces that a server makes, with their tools.
func (c Config) Workspaces(s *transfer.Server) *team.Workspaces {
	return &team.Workspaces{Server: s, Open: c.openCheckout}
}

// Programs returns what makes the programs of agents. state is the directory in which their sessions have theirs.
func (c Config) Programs(state string, l *slog.Logger) func(agent.ProgramConfig) agent.Program {
	return guests.New(guests.Config{Runner: c.Runner, Sandbox: c.Settings.Sandbox, Dir: c.Dir, Home: c.Home, Getenv: c.Getenv, State: state, Logger: l}).Program
}

// openCheckout opens a workspace that was made for one agent, as Open
// does the node's. Its commands run in the sandbox also where that is switched
// off for others, and of the user's files they see only the workspace, a home
// directory of their own, and what the lender's configuration adds to read.
func (c Config) openCheckout(at *transfer.Checkout) ([]tool.Tool, func() error, error) {
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
		return c.Runner.Box(c.Settings.Sandbox, true)
	}}
	commands.Look = commands.Box
	tools, opened, err := c.openDirectory(builtin.Config{Dir: at.Dir, Commands: commands})
	if err != nil {
		return nil, nil, err
	}
	return tools, opened.Close, nil
}

// openDirectory opens a directory for agents, and completes its configuration.
func (c Config) openDirectory(at builtin.Config) (_ []tool.Tool, _ io.Closer, err error) {
	if at.Search, err = c.Settings.Web.Search.Searcher(c.Getenv); err != nil {
		return nil, nil, err
	}
	if c.Skills != nil {
		at.Commands.SkillDirs = c.Skills.Dirs
	}
	workspace, err := builtin.New(at)
	if err != nil {
		return nil, nil, fmt.Errorf("the workspace: %w", err)
	}
	all := slices.Concat(workspace.Tools(), c.More)
	if c.Skills != nil {
		scripts := shell.NewScripts(at.Commands)
		scripts.Work = c.Settings.Sandbox.Scripts == string(permission.BoxWork)
		all = append(all, peerskill.Tool(c.Fetch), skill.ScriptTool(c.Skills, scripts))
	}
	return all, workspace, nil
}

// Names returns the names of the tools that agents can have on any node.
func Names() []string {
	return append(agent.ToolNames(), peerskill.Tool(nil).Spec().Name, skill.RunScript)
}
