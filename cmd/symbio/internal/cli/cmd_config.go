package cli

import (
	"github.com/spf13/cobra"

	"symbio/agent/node/config"
	"symbio/cmd/symbio/internal/command"
)

// cmdConfig returns the command config, which prints every value of the configuration in force with
// its origin. It reads the file that a node started here would read; the configuration of a running
// node can be older (see symbio config reload). It has no effect on a running node.
func cmdConfig(env *command.Env) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:  "config",
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, from, err := env.LoadConfig(file)
			if err != nil {
				return err
			}
			// The address of a cluster is in no file of the user, so it is added here.
			if err := clusterListen(env, file, &c, from); err != nil {
				return err
			}
			return printConfig(env, c, from)
		},
	}
	command.ConfigFlag(cmd, &file)
	cmd.AddCommand(cmdConfigReference(env), cmdReload(env), cmdSchema(env))
	return cmd
}

// cmdConfigReference returns the command config reference, which describes the file format. It
// needs neither a file nor a node. Keys, types and defaults come from the types of package config,
// so they are of this version.
func cmdConfigReference(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use:  "reference",
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			keys, err := config.Reference()
			if err != nil {
				return err
			}
			if env.JSON {
				return env.PrintJSON(keys)
			}
			return config.WriteReference(env.Out, keys)
		},
	}
}

// clusterListen sets the address on which a node of a cluster listens, if the configuration does
// not: `symbio config` shows the address that the node will use. It changes c and from.
func clusterListen(env *command.Env, file string, c *config.Config, from config.Origins) error {
	if _, isSet := from["node.listen"]; isSet {
		return nil
	}
	state, name, err := env.LocalNode(file)
	if err != nil {
		return err
	}
	at, err := state.Node(name).ListenAddr()
	// The address of a node outside of clusters is the default, which needs no origin of its own.
	if err != nil || at == c.Node.Listen {
		return err
	}
	c.Node.Listen = at
	from.Set("node.listen", "the cluster of node "+name)
	return nil
}

// printConfig prints the values in the order of their keys. Keys without a value in any file have
// the origin "default".
func printConfig(env *command.Env, c config.Config, from config.Origins) error {
	values, err := c.Values(from)
	if err != nil {
		return err
	}
	return command.PrintList(env, values, []string{"KEY", "VALUE", "FROM"}, func(v config.Value) []string {
		return []string{v.Key, v.String(), v.From}
	})
}
