package cli

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"symbio/agent/node"
	"symbio/cmd/symbio/internal/chat"
	"symbio/cmd/symbio/internal/command"
	symbiov1 "symbio/proto/symbio/v1"
)

// cmdSessions adds the command sessions resume to sessions: chat --resume ID, or with --on the
// interrupted task of another node's session, which goes on there in the background. It prints the
// session of that node.
func cmdSessions(env *command.Env, sessions *cobra.Command) *cobra.Command {
	var on string
	cmd := &cobra.Command{
		Use:  "resume ID",
		Args: command.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if on == "" {
				f := runFlags{session: sessionFlags{id: args[0]}, options: chat.Options{Keep: env.InIsTerminal}}
				return run(cmd.Context(), env, &f, cmd.Flags())
			}
			client, conn, err := env.Dial()
			if err != nil {
				return err
			}
			defer conn.Close()
			data, err := json.Marshal(map[string]string{"id": args[0]})
			if err != nil {
				return err
			}
			reply, err := client.Call(cmd.Context(), &symbiov1.CallRequest{Capability: node.SessionsResume, On: on, Data: data})
			if err != nil {
				return err
			}
			return env.Printf("%s\n", reply.GetData())
		},
	}
	cmd.Flags().StringVar(&on, "on", "", "go on with the interrupted task of a session of another `NODE` of the community, in the background there (default this machine)")
	sessions.AddCommand(cmd)
	return sessions
}
