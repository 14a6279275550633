package cli

import (
	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/config"
)

func (a *App) cmdConfig() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "config",
		Short: "The configuration in force, and where each value came from",
		Long: `Print the configuration in force and where each value came from: a line of a file, or the default.
Read is --config FILE, else symbio/symbio.yaml in your configuration directory.`,
		Example: `  symbio config
  symbio config --config kitchen.yaml --json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			c, from, err := a.loadConfig(file)
			if err != nil {
				return err
			}
			if err := a.clusterListen(file, &c, from); err != nil {
				return err
			}
			return a.printConfig(c, from)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "the file to read")
	return cmd
}

// clusterListen puts in where a node of a cluster listens, if the configuration does not say.
func (a *App) clusterListen(file string, c *config.Config, from config.Origins) error {
	if _, told := from["node.listen"]; told {
		return nil
	}
	state, err := a.state()
	if err != nil {
		return err
	}
	name, err := a.memberName(file)
	if err != nil {
		return err
	}
	at, err := state.ListenOf(name)
	if err != nil || at == c.Node.Listen {
		return err
	}
	c.Node.Listen = at
	from.Set("node.listen", "the cluster of node "+name)
	return nil
}

func (a *App) printConfig(c config.Config, from config.Origins) error {
	values, err := c.Values(from)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(values)
	}
	rows := make([][]string, len(values))
	for i, v := range values {
		rows[i] = []string{v.Key, v.String(), v.From}
	}
	return a.table([]string{"KEY", "VALUE", "FROM"}, rows)
}
