package cli

import (
	"github.com/spf13/cobra"

	"symbio/agent/node/config"
	"symbio/cmd/symbio/internal/command"
)

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
			if err := clusterListen(env, file, &c, from); err != nil {
				return err
			}
			return printConfig(env, c, from)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "the file to read")
	return cmd
}

// clusterListen puts in where a node of a cluster listens, if the configuration does not say.
func clusterListen(env *command.Env, file string, c *config.Config, from config.Origins) error {
	if _, isSet := from["node.listen"]; isSet {
		return nil
	}
	state, name, err := env.LocalNode(file)
	if err != nil {
		return err
	}
	at, err := state.Node(name).ListenAddr()
	if err != nil || at == c.Node.Listen {
		return err
	}
	c.Node.Listen = at
	from.Set("node.listen", "the cluster of node "+name)
	return nil
}

func printConfig(env *command.Env, c config.Config, from config.Origins) error {
	values, err := c.Values(from)
	if err != nil {
		return err
	}
	return command.PrintList(env, values, []string{"KEY", "VALUE", "FROM"}, func(v config.Value) []string {
		return []string{v.Key, v.String(), v.From}
	})
}
