package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"symbio/agent/tool/mcp"
)

func (a *App) cmdMCPTrust() *cobra.Command {
	var revoke, tools bool
	var hash, file string
	cmd := &cobra.Command{
		Use:   "trust SERVER",
		Short: "Let an MCP server of a project be started, or accept its changed tools",
		Long: `Show the entry of an MCP server in a project's .mcp.json and, after a yes, remember that you trust it.
What you trust is what is shown, in that place: when the entry changes you are asked again. A script gives the hash with
--hash, and trusts nothing else than that. A node that runs takes it up when an agent needs its tools again.

With --tools, what the tools of a server say of themselves now takes the place of what they said when they were
first let run: a changed tool is asked about at each call, whatever rule allows it, and as a capability refused.`,
		Example: `  symbio mcp trust files
  symbio mcp trust files --hash 5f1d…            # in a script
  symbio mcp trust files --revoke
  symbio mcp tools files --json && symbio mcp trust files --tools`,
		Args: rangeArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if tools {
				return a.acceptTools(cmd.Context(), file, args[0])
			}
			return a.trustMCP(cmd.Context(), file, args[0], hash, revoke)
		},
	}
	cmd.Flags().BoolVar(&revoke, "revoke", false, "trust it no longer")
	cmd.Flags().BoolVar(&tools, "tools", false, "accept the tools of the server as they are now")
	cmd.Flags().StringVar(&hash, "hash", "", "trust without asking, if this is its SHA-256")
	cmd.Flags().StringVar(&file, "config", "", "configuration file")
	cmd.MarkFlagsMutuallyExclusive("revoke", "tools", "hash")
	return cmd
}

func (a *App) acceptTools(ctx context.Context, file, server string) error {
	return a.withMCP(ctx, file, func(ctx context.Context, m *mcp.Manager) error {
		tools, err := m.ToolsOf(ctx, server)
		if err != nil {
			return mcpError(err)
		}
		for _, t := range tools {
			t.Accept()
		}
		return a.listMCPTools(tools)
	})
}

func (a *App) trustMCP(ctx context.Context, file, name, hash string, revoke bool) error {
	opts, err := a.mcpOptions(file)
	if err != nil {
		return err
	}
	servers, _, err := opts.MCPServers()
	if err != nil {
		return err
	}
	var s *mcp.Server
	for i := range servers {
		if servers[i].Project && (servers[i].Name == name || mcp.ServerPart(servers[i].Name) == name) {
			s = &servers[i]
		}
	}
	if s == nil {
		return notFound(fmt.Errorf("no MCP server of the project is called %q; those of your own file need no trust", printable(name)))
	}
	book := opts.State.MCP()
	if revoke {
		was, err := book.Revoke(*s)
		if err == nil && !was {
			err = notFound(fmt.Errorf("%s was not trusted", printable(s.Name)))
		}
		return err
	}
	if hash != "" && hash != s.Hash {
		return &statusError{exitDenied, fmt.Errorf("the SHA-256 of %s is %s, not %s: it is not trusted", printable(s.Name), s.Hash, printable(hash))}
	}
	if hash == "" {
		if err := a.askMCP(ctx, *s); err != nil {
			return err
		}
	}
	if err := book.Trust(*s); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Out, "%s is trusted\n", printable(s.Name))
	return err
}

// askMCP shows an entry and asks the person.
func (a *App) askMCP(ctx context.Context, s mcp.Server) error {
	fmt.Fprintf(a.Out, "%s (%s:%d)\n", printable(s.Name), printable(s.File), s.Line)
	for _, line := range strings.Split(s.Text, "\n") {
		fmt.Fprintln(a.Out, "  "+printable(line))
	}
	fmt.Fprintf(a.Out, "SHA-256: %s\n", s.Hash)
	if !a.InIsTerminal {
		return usage(fmt.Errorf("there is nobody to ask here\nTo trust exactly this: symbio mcp trust %s --hash %s", mcp.ServerPart(s.Name), s.Hash))
	}
	fmt.Fprint(a.Err, "May this be started here, when an agent needs it? [y/N] ")
	line, err := a.typed()(ctx)
	if said := strings.ToLower(strings.TrimSpace(line)); err != nil || said != "y" && said != "yes" {
		return &statusError{exitDenied, errors.Join(errors.New("not trusted"), err)}
	}
	return nil
}
