package mcpcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"symbio/agent/tool"
	"symbio/agent/tool/mcp"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/community"
	"symbio/internal/security/visible"
)

// New returns the command mcp, which groups the commands for MCP servers. They use servers of
// their own process and need no running node. A server that a running node has started is not used:
// each command that needs one starts it for itself and stops it at the end.
func New(env *command.Env) *cobra.Command {
	cmd := &cobra.Command{Use: "mcp", Args: command.NoArgs, RunE: command.RequireSubcommand}
	cmd.AddCommand(listCommand(env), toolsCommand(env), callCommand(env), trustCommand(env), addCommand(env), removeCommand(env),
		updateCommand(env), loginCommand(env), logoutCommand(env))
	return cmd
}

// withServers calls do with the MCP servers that a node started here would have, and stops those that
// do started. It blocks until the programs that were started have ended.
func withServers(ctx context.Context, env *command.Env, file string, do func(context.Context, *mcp.Manager) error) error {
	opts, err := command.NodeConfig(env, file)
	if err != nil {
		return err
	}
	// "mcp" names the directory for temporary files of the servers.
	m, err := opts.MCP("mcp")
	if err != nil {
		return err
	}
	for _, note := range m.Notes {
		env.Notef("note: %s", note)
	}
	// Open starts no server; the first use of one does.
	m.Open()
	defer m.Close()
	return do(ctx, m.Manager)
}

// serverJSON is one server. The JSON names are a contract.
type serverJSON struct {
	// Name is the name in the list.
	Name string `json:"name"`
	// Prefix begins the names of its tools for agents and rules: "mcp__SERVER__".
	Prefix string `json:"prefix"`
	// Type is the transport: stdio, http or sse.
	Type string `json:"type"`
	// Target is the command or the URL.
	Target string `json:"target"`
	// Project is true for a server of the project's list, which needs trust.
	Project bool `json:"project"`
	// File and Line are where the entry stands.
	File string `json:"file"`
	Line int    `json:"line"`
	// SHA256 is the hash of the entry, for `symbio mcp trust --hash`.
	SHA256 string `json:"sha256"`
	// State says whether the server can be used, Why the reason if it cannot.
	State string `json:"state"`
	Why   string `json:"why,omitempty"`
	// Tools is the number of its tools, 0 while it is not started.
	Tools int `json:"tools"`
	// Notes are remarks about the entry, such as variables that are not set.
	Notes []string `json:"notes,omitempty"`
}

// listCommand returns the command mcp list. With --start every server is started, and the exit
// status is 1 if one fails. Without --start no program runs and no connection is made.
func listCommand(env *command.Env) *cobra.Command {
	var file string
	var start bool
	cmd := &cobra.Command{
		Use:  "list",
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withServers(cmd.Context(), env, file, func(ctx context.Context, m *mcp.Manager) error {
				if start {
					m.Start(ctx)
				}
				all := m.Status()
				failed := 0
				for _, s := range all {
					// A server whose entry is broken or not trusted has failed, too; a disabled one
					// has not.
					if start && s.State == mcp.Failed {
						failed++
					}
				}
				if err := listServers(env, all); err != nil || failed == 0 {
					return err
				}
				return fmt.Errorf("%d of %d MCP servers failed", failed, len(all))
			})
		},
	}
	cmd.Flags().BoolVar(&start, "start", false, "start each server to see whether it works")
	command.ConfigFlag(cmd, &file)
	return cmd
}

// listServers prints servers, and the notes about their entries on standard error. A note is about the
// text of an entry and does not make the server fail.
func listServers(env *command.Env, all []mcp.Status) error {
	for _, s := range all {
		for _, note := range s.Notes {
			env.Notef("note: %s", s.Server.Name+": "+note)
		}
	}
	return command.PrintList(env, command.Map(all, serverOf), []string{"NAME", "TYPE", "STATE", "TOOLS", "RULE", "AT", "WHY"}, serverJSON.row)
}

// serverOf returns a server as it stands in the output.
func serverOf(s mcp.Status) serverJSON {
	target := s.Server.URL
	if s.Server.Type == mcp.Stdio {
		target = s.Server.Command
	}
	return serverJSON{
		s.Server.Name, mcp.ToolPrefix(s.Server.Name), s.Server.Type, target, s.Server.Project, s.Server.File, s.Server.Line, s.Server.Hash,
		string(s.State), s.Why, s.Tools, s.Notes,
	}
}

// row returns the columns of one server. The number of tools is known only of one that is ready.
// The column RULE has the pattern for rules about all tools of the server.
func (s serverJSON) row() []string {
	tools := ""
	if s.State == string(mcp.Ready) {
		tools = strconv.Itoa(s.Tools)
	}
	return []string{s.Name, s.Type, s.State, tools, s.Prefix + "*", fmt.Sprintf("%s:%d", s.File, s.Line), visible.TruncateRunes(s.Why, 600)}
}

// mcpToolJSON is a tool in the output; the names are a contract.
type mcpToolJSON struct {
	Name string `json:"name"`
	// Server is the name of the server in the list, Tool the server's own name for the tool. Name,
	// which agents and rules use, is made of both.
	Server      string `json:"server"`
	Tool        string `json:"tool"`
	Description string `json:"description"`
	// Input and Output are JSON schemas. They and Description are texts of the server, which is not
	// trusted.
	Input  json.RawMessage `json:"input"`
	Output json.RawMessage `json:"output,omitempty"`
	// SHA256 is the hash of the tool's description, by which a change is noticed.
	SHA256 string `json:"sha256,omitempty"`
	// Changed: it has changed since it was first listed.
	Changed bool `json:"changed"`
}

// toolsCommand returns the command mcp tools. Servers that fail are noted on standard error; the
// command fails only if none has any tool. It starts the servers to ask them.
func toolsCommand(env *command.Env) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:  "tools [SERVER]",
		Args: command.RangeArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withServers(cmd.Context(), env, file, func(ctx context.Context, m *mcp.Manager) error {
				server := append(args, "")[0]
				tools, err := m.ToolsOf(ctx, server)
				// An error beside tools is about other servers.
				if tools == nil && err != nil {
					return withStatus(err)
				}
				if err != nil {
					for _, line := range strings.Split(err.Error(), "\n") {
						env.Notef("note: %s", line)
					}
				}
				return listTools(env, tools)
			})
		},
	}
	command.ConfigFlag(cmd, &file)
	return cmd
}

// listTools prints tools, and marks those that changed since they were first listed. An agent
// that calls a changed tool needs a person's approval, even where a rule allows the call.
func listTools(env *command.Env, tools []*mcp.Tool) error {
	list := command.Map(tools, func(t *mcp.Tool) mcpToolJSON {
		spec := t.Spec()
		return mcpToolJSON{spec.Name, t.Server(), t.Name, spec.Description, spec.Schema, t.Output, t.Hash, t.Doubt() != ""}
	})
	return command.PrintList(env, list, []string{"NAME", "NOTE", "DESCRIPTION"}, func(t mcpToolJSON) []string {
		mark := ""
		if t.Changed {
			mark = "changed"
		}
		return []string{t.Name, mark, visible.TruncateRunes(terminal.Printable(t.Description), 80)}
	})
}

// callCommand returns the command mcp call. No rule is checked, because the person calls the tool,
// not an agent. An interrupt cancels the call on the server. Its exit status is 1 when the tool
// reports an error, 4 for an unknown server or tool, and 5 for a server that cannot be used.
func callCommand(env *command.Env) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:  "call SERVER TOOL [ARGS]",
		Args: command.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			call, err := command.ToolCall(env.In, args[1], append(args, "")[2])
			if err != nil {
				return err
			}
			return withServers(cmd.Context(), env, file, func(ctx context.Context, m *mcp.Manager) error {
				t, err := m.Tool(ctx, args[0], args[1])
				if err != nil {
					return withStatus(err)
				}
				// A changed tool is called all the same: the person has named it.
				if why := t.Doubt(); why != "" {
					env.Notef("note: %s", why)
				}
				// The function for progress is called by another goroutine. It writes one line at a
				// time to standard error, which nothing else uses meanwhile.
				answer, err := t.Call(ctx, call.Args, func(p community.Progress) { command.NoteProgress(env, p) })
				if err != nil {
					return withStatus(err)
				}
				return printAnswer(env, answer)
			})
		},
	}
	command.ConfigFlag(cmd, &file)
	return cmd
}

// printAnswer prints the answer of a tool, and returns an error if the tool reports one. Its text is
// the tool's and may contain anything, so it is made safe to print. With --json all of the answer
// is printed, with its structured content.
func printAnswer(env *command.Env, answer mcp.Answer) error {
	var err error
	if env.JSON {
		err = env.PrintJSON(answer)
	} else {
		_, err = fmt.Fprintln(env.Out, tool.Readable([]byte(answer.Text)))
	}
	if err == nil && answer.IsError {
		err = errors.New("the tool reported an error")
	}
	return err
}

// withStatus gives an error of the servers its exit status: 4 for an unknown server or tool, 5 for a
// server that cannot be used. Other errors keep their status.
func withStatus(err error) error {
	switch {
	case errors.Is(err, mcp.ErrUnknown):
		return command.NotFound(fmt.Errorf("%w; `symbio mcp list` and `symbio mcp tools` show those here", err))
	case errors.Is(err, mcp.ErrEntry):
		return command.Usage(err)
	case errors.Is(err, mcp.ErrNotReady):
		return command.Unavailable(err)
	}
	return err
}

// trustCommand returns the command mcp trust. It trusts one entry of a project's list by its hash,
// so that a changed entry is asked about again. Its exit status is 3 for a no or another hash, and
// 2 without a terminal and without --hash.
func trustCommand(env *command.Env) *cobra.Command {
	var revoke, tools bool
	var hash, file string
	cmd := &cobra.Command{
		Use:  "trust SERVER",
		Args: command.RangeArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if tools {
				return acceptTools(cmd.Context(), env, file, args[0])
			}
			return trust(cmd.Context(), env, file, args[0], hash, revoke)
		},
	}
	cmd.Flags().BoolVar(&revoke, "revoke", false, "take the trust back")
	cmd.Flags().BoolVar(&tools, "tools", false, "accept the tools of the server as they are now described")
	cmd.Flags().StringVar(&hash, "hash", "", "trust without a question if `SHA256` matches")
	command.ConfigFlag(cmd, &file)
	cmd.MarkFlagsMutuallyExclusive("revoke", "tools", "hash")
	return cmd
}

// acceptTools accepts the descriptions of a server's tools as they are now. The hashes are stored
// for all nodes of this user. It starts the server.
func acceptTools(ctx context.Context, env *command.Env, file, server string) error {
	return withServers(ctx, env, file, func(ctx context.Context, m *mcp.Manager) error {
		tools, err := m.ToolsOf(ctx, server)
		if err != nil {
			return withStatus(err)
		}
		for _, t := range tools {
			t.Accept()
		}
		return listTools(env, tools)
	})
}

// trust trusts the entry of that name after a yes or by its hash, or revokes the trust. Only
// servers of a project need it: those in the user's own file are the user's choice. Nothing is
// started. The trust is stored in the user's state directory, so that no project can carry it.
func trust(ctx context.Context, env *command.Env, file, name, hash string, revoke bool) error {
	opts, err := command.NodeConfig(env, file)
	if err != nil {
		return err
	}
	servers, _, err := opts.Servers(nil).List()
	if err != nil {
		return err
	}
	// s stays nil when there is no such server in the list of the project.
	var s *mcp.Server
	for i := range servers {
		// A server can be named as in the file or as rules name it.
		if servers[i].Project && (servers[i].Name == name || mcp.ServerPart(servers[i].Name) == name) {
			s = &servers[i]
		}
	}
	if s == nil {
		return command.NotFound(fmt.Errorf("no MCP server of the project is called %q; those of your own file need no trust; `symbio mcp list` shows all", terminal.Printable(name)))
	}
	book := opts.State.MCP()
	if revoke {
		// was is false when there was no trust. A running server is stopped at the next reload of
		// the node.
		was, err := book.Revoke(*s)
		if err == nil && !was {
			err = command.NotFound(fmt.Errorf("%s was not trusted", terminal.Printable(s.Name)))
		}
		return err
	}
	if hash != "" && hash != s.Hash {
		return command.Denied(fmt.Errorf("the SHA-256 of %s is %s, not %s: it is not trusted", terminal.Printable(s.Name), s.Hash, terminal.Printable(hash)))
	}
	if hash == "" {
		if err := confirm(ctx, env, *s); err != nil {
			return err
		}
	}
	if err := book.Trust(*s); err != nil {
		return err
	}
	if err := env.Printf("%s is trusted\n", s.Name); err != nil {
		return err
	}
	return offerPackage(ctx, env, opts, *s)
}

// confirm shows an entry and asks the person. Without a terminal it is a usage error that says
// how a script can trust it. It returns nil after a yes and an error with exit status 3 after a no.
// The whole entry is shown, because the command, its arguments and its variables all decide what
// runs.
func confirm(ctx context.Context, env *command.Env, s mcp.Server) error {
	fmt.Fprintf(env.Out, "%s (%s:%d)\n", terminal.Printable(s.Name), terminal.Printable(s.File), s.Line)
	for _, line := range strings.Split(s.Text, "\n") {
		fmt.Fprintln(env.Out, "  "+terminal.Printable(line))
	}
	fmt.Fprintf(env.Out, "SHA-256: %s\n", s.Hash)
	if !env.InIsTerminal {
		return command.Usage(fmt.Errorf("the trust needs a yes, and there is no terminal to ask on\nTo trust exactly this: symbio mcp trust %s --hash %s", mcp.ServerPart(s.Name), s.Hash))
	}
	if yes, err := env.Confirm(ctx, "May this be started here, when an agent needs it?"); !yes {
		return command.Denied(errors.Join(errors.New("not trusted: you did not say yes"), err))
	}
	return nil
}
