package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"symbio/agent"
	"symbio/agent/llm"
	"symbio/agent/node/config"
	"symbio/agent/tool"
	"symbio/internal/agent/llm/replay"
	"symbio/internal/agent/node/control"
	"symbio/internal/agent/node/exec"
	"symbio/internal/agent/node/mcpservers"
	"symbio/internal/agent/node/skillset"
	"symbio/internal/agent/node/state"
	"symbio/internal/agent/node/tools"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

// StateDir is a directory that keeps what nodes of a user have to remember: identities, sessions, trust.
type StateDir = state.Dir

// Config sets up a Node. The zero Config is what `symbio up` does without a
// configuration file.
type Config struct {
	// Settings are what symbio.yaml says. Default: config.Default(), from which
	// any other must be made.
	Settings config.Config
	// State is where the user's nodes keep what lasts. Default: the directory symbio of the system's place for state.
	State StateDir
	// Dir is where the node is started, Home the user's home directory, Host
	// the machine's name. Default: the process's.
	Dir, Home, Host string
	// Getenv reads the environment, for the keys of models and the paths of
	// skills. Default: os.Getenv.
	Getenv  func(string) string
	Version string
	// Models are models made in Go, such as an llm.Func. Settings and
	// definitions name them as func:NAME.
	Models map[string]llm.Model
	// Tools are more tools for all agents, as far as the rules allow their
	// calls.
	Tools []tool.Tool
	// Middleware is put around the stages of each agent's turns.
	Middleware agent.Middleware
	// Read reads the settings anew, for Reload; nil = they stay as they are.
	Read func() (config.Config, error)
	// Record keeps what is said with the servers of models. Replay answers from
	// such a record, and no server is asked.
	Record *replay.Recorder
	Replay *replay.Replayer
	// Users gets the commands that use the node, if it is to end with the last of them; nil = it is not.
	// Whoever runs the node ends it.
	Users  *control.Users
	Logger *slog.Logger // default: silent
}

// Load returns the Config of a configuration file. Without node.listen in the
// file, the cluster of the node decides where it listens.
func Load(file string) (Config, error) {
	settings, from, err := config.Load(file)
	if _, configured := from["node.listen"]; !configured {
		settings.Node.Listen = "" // the node's cluster decides
	}
	return Config{Settings: settings}, err
}

// WithDefaults returns c with defaults in place of missing values, as New does.
// It reads the environment of the process; the error concerns the working or
// home directory.
func (c Config) WithDefaults() (Config, error) {
	if reflect.ValueOf(c.Settings).IsZero() {
		c.Settings = config.Default()
		c.Settings.Node.Listen = "" // the node's cluster decides
	}
	if c.Getenv == nil {
		c.Getenv = os.Getenv
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	for _, d := range []struct {
		to  *string
		get func() (string, error)
	}{{&c.Dir, os.Getwd}, {&c.Home, os.UserHomeDir}} {
		if *d.to == "" {
			var err error
			if *d.to, err = d.get(); err != nil {
				return c, err
			}
		}
	}
	if dir, err := filepath.Abs(c.Dir); err == nil { // else Dir is used as it is
		c.Dir = dir
	}
	if c.Host == "" {
		c.Host, _ = os.Hostname() // without a name the node is called node
	}
	c.State = cmp.Or(c.State, state.Default(c.Home, c.Getenv))
	return c, nil
}

// NodeName returns the name that the node will have, unless another running
// node has it.
func (c Config) NodeName() string { return cmp.Or(c.Settings.Node.Name, state.NameOf(c.Host)) }

// Workspace returns the absolute path of the directory in which agents work.
func (c Config) Workspace() string {
	dir := cmp.Or(c.Settings.Workspace, c.Dir)
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(c.Dir, dir)
	}
	return filepath.Clean(dir)
}

// Skills says which skills the node has, and how its agents use them.
func (c Config) Skills() skillset.Config {
	return skillset.Config{Settings: c.Settings.Skills, State: c.State, Home: c.Home, Workspace: c.Workspace(), Getenv: c.Getenv, Logger: c.Logger}
}

// AgentTools returns the configuration of the agents' tools, without skills.
func (c Config) AgentTools(runner *exec.Runner) tools.Config {
	return tools.Config{Settings: c.Settings, Dir: c.Workspace(), Home: c.Home, Getenv: c.Getenv, More: c.Tools, Runner: runner}
}

// configDir returns the user's directory for the configuration of symbio.
func (c Config) configDir() string {
	dir := c.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(c.Home, ".config")
	}
	return filepath.Join(dir, "symbio")
}

// runner returns the runner of commands for a node. with has its functions.
func (c Config) runner(name string, with exec.Config) *exec.Runner {
	with.Sandbox, with.Dir, with.Home, with.Hide = c.Settings.Sandbox, c.Workspace(), c.Home, c.State.Private()
	with.Temp, with.MaxOutput = filepath.Join(string(c.State), "tmp", name), c.Settings.Limits.Message
	return exec.New(with)
}

// ConfiguredRunner is runner without a running node: its rules are the rules of the
// settings.
func (c Config) ConfiguredRunner(name string) *exec.Runner {
	return c.runner(name, exec.Config{Denied: func() *permission.FileDenials {
		rules, _ := c.Settings.Permissions.Policy() // config.Check has read them
		return rules.Denied(c.Workspace())
	}})
}

// Holds probes the sandbox of this machine. It takes some milliseconds and
// leaves nothing behind.
func (c Config) Holds(ctx context.Context) *sandbox.Box {
	return sandbox.Probe(ctx, exec.Probing(c.Settings.Sandbox, c.Home, c.State.Private()))
}

// Kept says in a sentence how commands are kept from files that rules deny: by
// the operating system, or only by reading the commands. It returns "" if there
// are no such rules.
func (c Config) Kept(held *sandbox.Box, d *permission.FileDenials) (how string, bySystem bool) {
	rules := strings.Join(d.Rules(), ", ")
	if rules == "" {
		return "", true
	}
	p, err := c.Settings.Sandbox.Policy(c.Workspace(), c.Home)
	gaps := held.Gaps(tool.WithoutDenied(p, d).Files)
	if err != nil || c.Settings.Sandbox.IsOff() {
		gaps = []string{cmp.Or(err, errors.New("the sandbox is switched off")).Error()}
	}
	if len(gaps) > 0 {
		return fmt.Sprintf("commands are kept from denied files (%s) by reading them only: %s", rules, strings.Join(gaps, "; ")), false
	}
	return fmt.Sprintf("the system keeps commands from denied files (%s; by a relative path: those below the workspace)", rules), true
}

// Servers returns the configuration of the MCP servers.
func (c Config) Servers(r *exec.Runner) mcpservers.Config {
	return mcpservers.Config{
		MCP: c.Settings.MCP, Workspace: c.Workspace(), Writable: append(c.Settings.Sandbox.WritablePaths(c.Home),
			c.Settings.Directories...), Home: c.Home, ConfigDir: c.configDir(), Getenv: c.Getenv,
		State: c.State, Runner: r, Version: c.Version, Logger: c.Logger,
	}
}

// MCP opens the MCP servers without a running node. name is the directory for
// temporary files. Servers start when they are needed; the caller closes them.
func (c Config) MCP(name string) (*mcpservers.Servers, error) {
	if err := c.State.Prepare(); err != nil {
		return nil, err
	}
	return mcpservers.Open(c.Servers(c.ConfiguredRunner(name)))
}
