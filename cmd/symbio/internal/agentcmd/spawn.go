package agentcmd

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"symbio/cmd/symbio/internal/command"
	symbiov1 "symbio/proto/symbio/v1"
)

// cmdSpawn returns the command spawn, which starts an agent on the node of the current directory.
// The agent lives until it is terminated or the node ends. Its exit status is 4 if there is no such
// definition. It has no terminal: calls that need approval are denied, unless approvals.unattended
// is set.
func cmdSpawn(env *command.Env) *cobra.Command {
	var r symbiov1.SpawnRequest
	cmd := &cobra.Command{
		Use:  "spawn AGENT",
		Args: command.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			// The agent works in the node's directory, so the node must be the node of this directory.
			dial := env.Nodes().DialWorkspace
			if len(r.On) > 0 {
				dial = func(context.Context) (symbiov1.ControlClient, *grpc.ClientConn, error) { return env.Nodes().Dial() }
			}
			client, conn, err := dial(cmd.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			r.Agent = args[0]
			m, err := client.Spawn(cmd.Context(), &r)
			if err != nil {
				return err
			}
			return printMember(env, m, "spawned")
		},
	}
	cmd.Flags().StringVar(&r.Name, "name", "", "`NAME` of the member (default the name of the definition)")
	cmd.Flags().StringArrayVar(&r.On, "on", nil, command.OnHelp)
	cmd.Flags().BoolVar(&r.Keep, "keep", false, "the agent lives again when the node is started again, until it is terminated")
	return cmd
}

// cmdTerminate returns the command terminate, which ends an agent and its sub-agents. Only agents
// of the node itself, and those that it has spawned on others, can be terminated. It returns when the agent has ended. Its exit status is 4
// if there is no such member, and 2 if several have the name.
func cmdTerminate(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use:  "terminate MEMBER",
		Args: command.ExactArgs(1),
		RunE: env.OnNode(func(ctx context.Context, client symbiov1.ControlClient, args []string) error {
			m, err := client.Terminate(ctx, &symbiov1.TerminateRequest{Member: args[0]})
			if err != nil {
				return err
			}
			return printMember(env, m, "terminated")
		}),
	}
}

// printMember prints a member and what was done with it. done is the first of three columns; the id
// is the second.
func printMember(env *command.Env, m *symbiov1.LocatedMember, done string) error {
	if env.JSON {
		return env.PrintJSON(m)
	}
	return env.Printf("%s\t%s\t%s\n", done, m.GetId(), m.GetName())
}
