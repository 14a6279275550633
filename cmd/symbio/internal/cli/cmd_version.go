package cli

import (
	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
)

// cmdVersion returns the command version. `symbio --version` prints the same, and is what --help lists.
func cmdVersion(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use:    "version",
		Args:   command.NoArgs,
		Hidden: true,
		RunE:   func(*cobra.Command, []string) error { return printVersion(env) },
	}
}

// printVersion prints what this build knows of itself, for people one value on each line. The
// protocol is that between nodes: nodes with different versions of it may refuse each other.
func printVersion(env *command.Env) error {
	v := command.Version()
	if env.JSON {
		return env.PrintJSON(v)
	}
	return env.Printf("symbio %s\ncommit %s\n%s\nprotocol %s\n", v.Version, v.Commit, v.Go, v.Protocol)
}
