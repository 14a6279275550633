package cli

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
	symbiov1 "symbio/proto/symbio/v1"
)

// cmdReload returns the command reload. It prints which keys took effect, and on standard error
// those that need a restart. A mistake in the file is an error, and the old configuration stays in
// force. The exit status is then 1.
func cmdReload(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use:  "reload",
		Args: command.NoArgs,
		RunE: env.OnNode(func(ctx context.Context, client symbiov1.ControlClient, _ []string) error {
			// Configuration asks for the rules of the configuration file, too; without it the node
			// reads only the state of its cluster again.
			reply, err := client.Reload(ctx, &symbiov1.ReloadRequest{Configuration: true})
			if err != nil {
				return err
			}
			if env.JSON {
				return env.PrintJSON(reply)
			}
			if restart := reply.GetRestart(); len(restart) > 0 {
				env.Notef("restart the node to apply the other changes: %s", strings.Join(restart, ", "))
			}
			return env.Printf("applied: %s\n", cmp.Or(strings.Join(reply.GetChanged(), ", "), "nothing"))
		}),
	}
}
