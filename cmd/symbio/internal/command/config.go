package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"symbio/agent/node"
	"symbio/agent/node/config"
	statedir "symbio/agent/node/state"
)

// LoadConfig reads the configuration file that a flag names, else the user's own. A symbio.yaml that
// merely lies in the current directory is not read: a repository must not be able to grant anything
// (security: D12).
func (env *Env) LoadConfig(file string) (config.Config, config.Origins, error) {
	if file != "" {
		c, from, err := config.Load(file)
		if err != nil {
			return c, from, fmt.Errorf("the configuration: %w", err)
		}
		beside, err := filepath.Abs(filepath.Join(filepath.Dir(file), "mcp.json"))
		if _, missing := os.Stat(beside); c.MCP.File == "" && err == nil && missing == nil {
			c.MCP.File = beside
			from.Set("mcp.file", "beside "+file)
		}
		return c, from, err
	}
	own, err := env.UserConfig()
	if err != nil {
		return config.Config{}, nil, err
	}
	c, from, err := config.Load(own)
	if errors.Is(err, fs.ErrNotExist) {
		if _, here := os.Stat("symbio.yaml"); here == nil {
			fmt.Fprintln(env.Err, "note: symbio.yaml in this directory is not read by itself; use --config symbio.yaml")
		}
		return config.Default(), config.Origins{}, nil
	}
	if err != nil {
		return c, from, fmt.Errorf("the configuration: %w", err)
	}
	return c, from, nil
}

// UserConfig is the path of the user's own configuration file.
func (env *Env) UserConfig() (string, error) {
	if dir := env.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "symbio", "symbio.yaml"), nil
	}
	home, err := env.home()
	return filepath.Join(home, ".config", "symbio", "symbio.yaml"), err
}

// Workspace is the directory in which agents of a node that is started here would work.
func (env *Env) Workspace() (string, error) {
	own, err := env.UserConfig()
	if err != nil {
		return "", err
	}
	c, _, _ := config.Load(own) // a file that cannot be read is an error when it is used
	opts, err := env.NodeOptions(c)
	return opts.Workspace(), err
}

// NodeOptions is everything of this process that a node needs.
func (env *Env) NodeOptions(c config.Config) (node.Config, error) {
	home, err := env.home()
	if err != nil {
		return node.Config{}, err
	}
	return node.Config{Settings: c, Home: home, Getenv: env.Getenv, Version: Version().Version, Models: env.Models}.WithDefaults()
}

// LocalNode returns where this user's nodes keep their state, and the name of the one that a command is about which needs none
// to run: that of --node, else the configured one, else this machine's, as `symbio up` chooses it.
func (env *Env) LocalNode(file string) (state statedir.Dir, name string, err error) {
	if env.Node != "" && file != "" {
		return state, "", Usage(errors.New("--node and --config both name the node; leave one out"))
	}
	if state, err = env.State(); err != nil || env.Node != "" {
		return state, env.Node, err
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
