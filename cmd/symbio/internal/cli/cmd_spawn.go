package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	symbiov1 "symbio/proto/symbio/v1"
)

func (a *App) cmdSpawn() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "spawn AGENT",
		Short: "Start an agent on this machine's node, by the name of its definition",
		Example: `  symbio spawn general
  symbio spawn reviewer --name critic`,
		Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, conn, err := a.dial()
			if err != nil {
				return err
			}
			defer conn.Close()
			m, err := client.Spawn(cmd.Context(), &symbiov1.SpawnRequest{Agent: args[0], Name: name})
			if err != nil {
				return err
			}
			return a.printMember(m, "spawned")
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "what to call the member (default: the definition's name)")
	return cmd
}

func (a *App) cmdTerminate() *cobra.Command {
	return &cobra.Command{
		Use:     "terminate MEMBER",
		Short:   "End an agent of this machine's node, and its sub-agents",
		Example: "  symbio terminate critic",
		Args:    exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, conn, err := a.dial()
			if err != nil {
				return err
			}
			defer conn.Close()
			m, err := client.Terminate(cmd.Context(), &symbiov1.TerminateRequest{Member: args[0]})
			if err != nil {
				return err
			}
			return a.printMember(m, "terminated")
		},
	}
}

func (a *App) printMember(m *symbiov1.LocatedMember, done string) error {
	member := toMember(m)
	if a.json {
		return a.printJSON(member)
	}
	_, err := fmt.Fprintf(a.Out, "%s\t%s\t%s\n", done, printable(member.ID), printable(member.Name))
	return err
}
