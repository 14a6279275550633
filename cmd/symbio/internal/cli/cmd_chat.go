package cli

import (
	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/chat"
	"symbio/cmd/symbio/internal/command"
)

// cmdChat returns the command chat: run without a first task, which stays in the conversation.
// Without a terminal its exit status is 1 if an answer failed. Keep leaves the conversation open
// after each answer.
func cmdChat(env *command.Env) *cobra.Command {
	f := runFlags{options: chat.Options{Keep: true, Greeting: "/help lists the commands; Ctrl-C stops an answer, Ctrl-D leaves"}}
	cmd := &cobra.Command{
		Use:  "chat",
		Args: func(cmd *cobra.Command, args []string) error { return command.NoArgs(cmd, f.session.withoutID(args)) },
		RunE: func(cmd *cobra.Command, args []string) error {
			f.session.takeID(args)
			return run(cmd.Context(), env, &f, cmd.Flags())
		},
	}
	f.add(cmd)
	return cmd
}
