package mcpcmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"symbio/agent/node"
	"symbio/agent/tool/mcp"
	"symbio/cmd/symbio/internal/command"
)

// mcpEntryJSON says where an entry was added or removed. The JSON names are a contract.
type mcpEntryJSON struct {
	Name string `json:"name"`
	File string `json:"file"`
}

// addCommand returns the command mcp add. It writes an entry and starts nothing. Its exit status is 1
// if there is a server with that name, and 2 for an entry that could not be used.
func addCommand(env *command.Env) *cobra.Command {
	var file string
	var project bool
	var vars []string
	var entry mcp.NewEntry
	cmd := &cobra.Command{
		Use:  "add NAME [--url URL | -- COMMAND ARGS...]",
		Args: command.MinArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) > 1) == (entry.URL != "") {
				return command.Usage(errors.New("give the command of the server behind --, or its --url"))
			}
			if len(args) > 1 {
				entry.Command, entry.Args = args[1], args[2:]
			}
			for _, text := range vars {
				name, value, ok := strings.Cut(text, "=")
				if !ok || name == "" || entry.URL != "" {
					return command.Usage(fmt.Errorf("--env %s: want NAME=VALUE, for a server with a command", text))
				}
				if entry.Env == nil {
					entry.Env = map[string]string{}
				}
				entry.Env[name] = value
			}
			return edit(env, file, project, args[0], func(opts node.Config, at string) error {
				if err := mcp.Add(at, args[0], entry, project); err != nil {
					return err
				}
				if project {
					env.Notef("note: it is started after you trust it: symbio mcp trust %s", mcp.ServerPart(args[0]))
					return nil
				}
				return offerPackage(cmd.Context(), env, opts, mcp.Server{Name: args[0], Command: entry.Command, Args: entry.Args})
			})
		},
	}
	cmd.Flags().StringArrayVar(&vars, "env", nil, "`NAME=VALUE` of a variable for its program, such as KEY=${KEY} for that of the node; may be repeated")
	cmd.Flags().StringVar(&entry.URL, "url", "", "`URL` of a server that is reached by HTTP")
	addFlags(cmd, &file, &project)
	return cmd
}

// removeCommand returns the command mcp remove. Its exit status is 4 if there is no such server.
func removeCommand(env *command.Env) *cobra.Command {
	var file string
	var project bool
	cmd := &cobra.Command{
		Use:  "remove NAME",
		Args: command.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return edit(env, file, project, args[0], func(_ node.Config, at string) error { return mcp.Remove(at, args[0]) })
		},
	}
	addFlags(cmd, &file, &project)
	return cmd
}

// addFlags registers the flags that choose the list.
func addFlags(cmd *cobra.Command, file *string, project *bool) {
	cmd.Flags().BoolVar(project, "project", false, "in the .mcp.json of the workspace, not in your own list")
	command.ConfigFlag(cmd, file)
}

// edit changes a list of servers, and prints which.
func edit(env *command.Env, file string, project bool, name string, change func(opts node.Config, at string) error) error {
	opts, err := command.NodeConfig(env, file)
	if err != nil {
		return err
	}
	at := opts.Servers(nil).File(project)
	if err := change(opts, at); err != nil {
		return withStatus(err)
	}
	if env.JSON {
		return env.PrintJSON(mcpEntryJSON{name, at})
	}
	return env.Printf("%s\t%s\n", name, at)
}

// loginCommand returns the command mcp login, and logoutCommand its counterpart. They make or remove a
// file with the tokens of a server. Their exit status is 4 for an unknown server, and for a logout
// without a login.
func loginCommand(env *command.Env) *cobra.Command {
	return accountCommand(env, "login", func(ctx context.Context, m *mcp.Manager, name string) error {
		return m.Login(ctx, name, func(_ context.Context, address string) {
			env.Notef("To log in, open this address in a browser on this machine; Ctrl-C gives up.\n")
			env.Notef("%s", address)
		})
	})
}

func logoutCommand(env *command.Env) *cobra.Command {
	return accountCommand(env, "logout", func(_ context.Context, m *mcp.Manager, name string) error {
		err := m.Logout(name)
		if errors.Is(err, fs.ErrNotExist) {
			return command.NotFound(fmt.Errorf("there is no login at %s", name))
		}
		return err
	})
}

// accountCommand returns a command about the login at one server.
func accountCommand(env *command.Env, use string, do func(context.Context, *mcp.Manager, string) error) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:  use + " SERVER",
		Args: command.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withServers(cmd.Context(), env, file, func(ctx context.Context, m *mcp.Manager) error {
				if err := do(ctx, m, args[0]); err != nil {
					return withStatus(err)
				}
				return env.Printf("%s: %s done\n", args[0], use)
			})
		},
	}
	command.ConfigFlag(cmd, &file)
	return cmd
}
