package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"symbio/agent/node"
	"symbio/agent/node/config"
	statedir "symbio/internal/agent/node/state"
)

// LoadConfig reads the configuration file that a flag names, else the user's own, and returns it
// with the origin of each value. Without a file of the user's it returns the defaults. A rule for a
// tool that does not exist is an error.
//
// A symbio.yaml in the current directory is not read without --config: a cloned repository
// must not be able to grant permissions (security: D12). A note on standard error says so. An
// mcp.json beside a file that --config names is used when the file names no other.
func (env *Env) LoadConfig(file string) (config.Config, config.Origins, error) {
	c, from, err := readConfig(env, file)
	if file != "" && errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; write the path of a file that is there, or leave out --config for your own", err)
	}
	if err == nil {
		err = node.CheckRules(node.Config{Settings: c})
	}
	if err != nil {
		return c, from, fmt.Errorf("the configuration: %w", err)
	}
	return c, from, nil
}

// readConfig is LoadConfig without the check of tools' names.
func readConfig(env *Env, file string) (config.Config, config.Origins, error) {
	if file != "" {
		c, from, err := config.Load(file)
		if err != nil {
			return c, from, err
		}
		beside, err := filepath.Abs(filepath.Join(filepath.Dir(file), "mcp.json"))
		if _, missing := os.Stat(beside); c.MCP.File == "" && err == nil && missing == nil {
			c.MCP.File = beside
			from.Set("mcp.file", "beside "+file)
		}
		return c, from, err
	}
	c, from, err := config.Load(env.UserConfig())
	if errors.Is(err, fs.ErrNotExist) {
		if _, here := os.Stat("symbio.yaml"); here == nil {
			fmt.Fprintln(env.Err, "note: symbio.yaml in this directory is not read by itself; use --config symbio.yaml")
		}
		c, from, err = config.Default(), config.Origins{}, nil
	}
	if _, missing := os.Stat(env.UserAgents()); c.Agents == "" && err == nil && missing == nil {
		c.Agents = env.UserAgents()
		from.Set("agents", "beside "+env.UserConfig())
	}
	return c, from, err
}

// UserAgents returns the directory of the user's own definitions of agents, which counts if the user's configuration names no
// other. It need not exist.
func (env *Env) UserAgents() string { return filepath.Join(filepath.Dir(env.UserConfig()), "agents") }

// UserConfig returns the path of the user's own configuration file, which need not exist:
// $XDG_CONFIG_HOME/symbio/symbio.yaml, or ~/.config/symbio/symbio.yaml.
func (env *Env) UserConfig() string {
	if dir := env.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "symbio", "symbio.yaml")
	}
	home, _ := homeOf(env.Getenv)
	return filepath.Join(home, ".config", "symbio", "symbio.yaml")
}

// Workspace returns the directory in which the agents of a node that is started here would work:
// the configured one, else the current directory.
func (env *Env) Workspace() (string, error) {
	// An unreadable file is reported by the command that uses its values.
	c, _, _ := config.Load(env.UserConfig())
	opts, err := env.NodeOptions(c)
	return opts.Workspace(), err
}

// NodeOptions returns the configuration of a node: the settings c, and what comes from this process
// (home directory, environment, version, models).
func (env *Env) NodeOptions(c config.Config) (node.Config, error) {
	home, _ := homeOf(env.Getenv)
	return node.Config{Settings: c, Home: home, Getenv: env.Getenv, Version: Version().Version, Models: env.Models}.WithDefaults()
}

// NodeConfig returns the configuration of a node that would be started here with the configuration
// file; file may be "". It reads files only and starts nothing.
func NodeConfig(env *Env, file string) (node.Config, error) {
	c, _, err := env.LoadConfig(file)
	if err != nil {
		return node.Config{}, err
	}
	return env.NodeOptions(c)
}

// ConfigFlag adds the flag --config, the file of a NodeConfig.
func ConfigFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "config", "", "configuration `FILE` (default symbio/symbio.yaml in your configuration directory)")
}

// NamedNode is LocalNode for what is done once and for all. It returns a usage error if symbio.yaml in
// this directory names another node: it is not said which of the two is meant.
func NamedNode(env *Env, file string) (state statedir.Dir, name string, err error) {
	if state, name, err = env.LocalNode(file); err != nil || file != "" || env.Node != "" {
		return state, name, err
	}
	if c, _, err := config.Load("symbio.yaml"); err == nil && c.Node.Name != "" && c.Node.Name != name {
		return state, name, Usage(fmt.Errorf("is this for node %s, as symbio.yaml in this directory says, or for %s, as symbio up without --config starts it?\nSay --config symbio.yaml, or --node %[2]s", c.Node.Name, name))
	}
	return state, name, nil
}

// LocalNode returns the state directory of this user's nodes, and the name of the node that a
// command is about. The node need not run. The name comes from --node, else the configured one,
// else the name of this machine, as `symbio up` chooses it. --node together with a configuration
// file is a usage error.
func (env *Env) LocalNode(file string) (state statedir.Dir, name string, err error) {
	if env.Node != "" && file != "" {
		return state, "", Usage(errors.New("--node and --config both name the node; leave one out"))
	}
	if state = env.State(); env.Node != "" {
		return state, env.Node, nil
	}
	c, _, err := env.LoadConfig(file)
	if err != nil || c.Node.Name != "" {
		return state, c.Node.Name, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "node"
	}
	return state, statedir.NameOf(host), nil
}
