package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/demo"
)

// cmdServeReports returns the hidden command serve-reports, the MCP server that node b of the tour
// starts. It ends with its standard input, and an interrupt is no error: that is how the node stops
// it. Standard output carries the protocol, so the command prints nothing else there.
func cmdServeReports(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use:    "serve-reports",
		Hidden: true,
		Args:   command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := demo.Serve(cmd.Context(), env.In, env.Out, command.Version().Version)
			if errors.Is(err, context.Canceled) {
				// The node stops its servers with an interrupt.
				return nil
			}
			return err
		},
	}
}
