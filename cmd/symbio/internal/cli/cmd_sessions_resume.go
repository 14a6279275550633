package cli

import (
	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/chat"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/sessioncmd"
)

// cmdSessions adds the command sessions resume to its parent: chat --resume ID, or with --on the
// interrupted task of another node's session, which goes on there in the background. It prints the
// session of that node.
func cmdSessions(env *command.Env, parent *cobra.Command) *cobra.Command {
	var on string
	cmd := &cobra.Command{
		Use:  "resume ID",
		Args: command.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if on == "" {
				f := runFlags{session: sessionFlags{id: args[0]}, options: chat.Options{Keep: env.InIsTerminal}}
				return run(cmd.Context(), env, &f, cmd.Flags())
			}
			return sessioncmd.Resume(cmd.Context(), env, on, args[0])
		},
	}
	cmd.Flags().StringVar(&on, "on", "", "go on with the interrupted task of a session of another `NODE` of the community, in the background there (default this machine)")
	parent.AddCommand(cmd, cmdArtifacts(env))
	return parent
}
