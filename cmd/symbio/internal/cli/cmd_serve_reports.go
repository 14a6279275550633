package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/demo"
)

// cmdServeReports is the MCP server that the tour's node b runs.
func (a *App) cmdServeReports() *cobra.Command {
	return &cobra.Command{
		Use:    "serve-reports",
		Short:  "An MCP server on standard input and output that renders surveys as Markdown",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := demo.Serve(cmd.Context(), a.In, a.Out, version().Version)
			if errors.Is(err, context.Canceled) {
				return nil // it was told to end
			}
			return err
		},
	}
}
