package mcpcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"symbio/agent/node"
	"symbio/agent/tool/mcp"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/internal/agent/tool/mcp/packages"
)

// packageJSON is the package of a server. The JSON names are a contract.
type packageJSON struct {
	packages.Record
	// Before is the version that was installed, if any.
	Before string `json:"before,omitempty"`
	// Changes are the changes of all packages that come with it.
	Changes []string `json:"changes,omitempty"`
}

// updateCommand returns the command mcp update. It installs the package of a server, or another
// version of it. Its exit status is 3 for a no or another hash, 4 for an unknown server, and 2 for one
// that has no package, and without a terminal and without --hash.
func updateCommand(env *command.Env) *cobra.Command {
	var file, hash string
	cmd := &cobra.Command{
		Use:  "update SERVER",
		Args: command.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := command.NodeConfig(env, file)
			if err != nil {
				return err
			}
			servers, _, err := opts.Servers(nil).List()
			if err != nil {
				return err
			}
			i := slices.IndexFunc(servers, func(s mcp.Server) bool { return s.Name == args[0] || mcp.ServerPart(s.Name) == args[0] })
			if i < 0 {
				return withStatus(fmt.Errorf("%w: there is no MCP server %q", mcp.ErrUnknown, args[0]))
			}
			s := servers[i]
			if s.Project && !opts.State.MCP().Trusted(s) {
				return command.Denied(fmt.Errorf("it comes with the project, and is not trusted yet: symbio mcp trust %s", mcp.ServerPart(s.Name)))
			}
			p, _, err := packages.Parse(s.Command, s.Args)
			if err != nil || p.Manager == "" {
				return command.Usage(errors.Join(errors.New("it runs no package that can be installed, as npx, bunx, uvx, pipx run and the like do"), err))
			}
			plan, err := installPackage(cmd.Context(), env, opts, s.Name, p, hash)
			if err != nil {
				return err
			}
			if env.JSON {
				return env.PrintJSON(packageJSON{plan.After, plan.Before.Version, plan.Changes})
			}
			return env.Printf("%s\t%s\t%s\n", s.Name, p.Name, terminal.Printable(plan.After.Version))
		},
	}
	cmd.Flags().StringVar(&hash, "hash", "", "install without a question if `SHA256` is that of the lock")
	command.ConfigFlag(cmd, &file)
	return cmd
}

// offerPackage offers to install the package of a server that was just added or trusted. Without a
// terminal it says how to do that later.
func offerPackage(ctx context.Context, env *command.Env, opts node.Config, s mcp.Server) error {
	p, _, err := packages.Parse(s.Command, s.Args)
	later := "symbio mcp update " + mcp.ServerPart(s.Name)
	switch {
	case err != nil:
		env.Notef("note: %s; install its package yourself, and write its program as the command", terminal.Printable(err.Error()))
	case p.Manager == "" || opts.State.Packages().Argv(s.Command, s.Args) != nil:
	case !env.InIsTerminal:
		env.Notef("note: its package is not installed, which needs your yes once, at a terminal: %s", later)
	default:
		if _, err := installPackage(ctx, env, opts, s.Name, p, ""); err != nil {
			return fmt.Errorf("%w\nThe server is kept; to install its package later: %s", err, later)
		}
	}
	return nil
}

// maxChanges is how many packages are named to a person, more than most servers bring.
const maxChanges = 500

// installPackage shows what would be installed, asks, and installs it. With a hash it does not ask,
// and installs only what has it.
func installPackage(ctx context.Context, env *command.Env, opts node.Config, server string, p packages.Package, hash string) (*packages.Plan, error) {
	servers, err := opts.MCP("mcp")
	if err != nil {
		return nil, err
	}
	installer, err := servers.Installer()
	if err != nil {
		return nil, err
	}
	env.Notef("Asking the registry that %s is configured with for %s", p.Manager, p.Name)
	plan, err := installer.Resolve(ctx, p)
	if err != nil {
		return nil, err
	}
	defer plan.Discard()
	is := plan.After
	if is.SHA256 == plan.Before.SHA256 && (hash == "" || hash == is.SHA256) {
		env.Notef("Installed is the newest that the entry asks for")
		return &packages.Plan{After: plan.Before, Before: plan.Before}, nil
	}
	env.Notef("%s runs %s %s (%s), and %d other packages come with it", terminal.Printable(server), p.Name, terminal.Printable(is.Version), terminal.Printable(is.Integrity), plan.Count-1)
	if plan.Before.Version != "" {
		env.Notef("Installed is %s. Of all its packages, these change:", terminal.Printable(plan.Before.Version))
	}
	for _, line := range plan.Changes[:min(len(plan.Changes), maxChanges)] {
		env.Notef("  %s", terminal.Printable(line))
	}
	if more := len(plan.Changes) - maxChanges; more > 0 {
		env.Notef("  and %d more", more)
	}
	switch {
	case hash == is.SHA256:
	case hash != "":
		return nil, command.Denied(fmt.Errorf("the SHA-256 of the lock is %s, not %s: nothing is installed", is.SHA256, terminal.Printable(hash)))
	case !env.InIsTerminal:
		return nil, command.Usage(fmt.Errorf("this needs a yes, and there is no terminal to ask on\nTo install exactly this: symbio mcp update %s --hash %s", mcp.ServerPart(server), is.SHA256))
	default:
		question := fmt.Sprintf("Install %s %s once, by %s in the sandbox, without running scripts of the packages?", p.Name, terminal.Printable(is.Version), p.Manager)
		if yes, err := env.Confirm(ctx, question); !yes {
			return nil, command.Denied(errors.Join(errors.New("not installed: you did not say yes"), err))
		}
	}
	return plan, plan.Install(ctx)
}
