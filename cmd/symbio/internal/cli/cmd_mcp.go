package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"symbio/agent/tool"
	"symbio/agent/tool/mcp"
	"symbio/cmd/symbio/internal/node"
	"symbio/community"
)

func (a *App) cmdMCP() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "The MCP servers whose tools agents have",
		Long: `MCP servers are listed in mcp.json beside your configuration, and in the .mcp.json of the workspace: an
object mcpServers of entries by name, with command, args and env, or with a url and headers. ${VAR} and ${VAR:-default}
are replaced. A program runs in the sandbox, as all commands do; in your own file, "sandbox" beside the command says
otherwise, with the words of the configuration. What a project lists is not started before you have trusted it.

An agent calls the tools of a server as mcp__SERVER__TOOL; permissions name them so, or all of a server as
mcp__SERVER__*.`,
		Example: `  symbio mcp list
  symbio mcp tools files
  symbio mcp call files read_text_file '{"path": "notes.md"}'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.cmdMCPList(), a.cmdMCPTools(), a.cmdMCPCall(), a.cmdMCPTrust())
	return cmd
}

// mcpOptions are those of a node that would be started here.
func (a *App) mcpOptions(file string) (node.Options, error) {
	c, _, err := a.loadConfig(file)
	if err != nil {
		return node.Options{}, err
	}
	return a.nodeOptions(c)
}

// withMCP does something with the servers that a node here would have, and ends them.
func (a *App) withMCP(ctx context.Context, file string, do func(context.Context, *mcp.Manager) error) error {
	opts, err := a.mcpOptions(file)
	if err != nil {
		return err
	}
	m, notes, err := opts.MCP("mcp", nil, slog.New(slog.DiscardHandler))
	for _, note := range notes {
		fmt.Fprintln(a.Err, "note:", printable(note))
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { _ = m.Run(ctx) }) // it has no errors but those of its servers
	return do(ctx, m)
}

// mcpServerJSON is a server in the output; the names are a contract.
type mcpServerJSON struct {
	Name    string   `json:"name"`
	Prefix  string   `json:"prefix"`
	Type    string   `json:"type"`
	Target  string   `json:"target"`
	Project bool     `json:"project"`
	File    string   `json:"file"`
	Line    int      `json:"line"`
	SHA256  string   `json:"sha256"`
	State   string   `json:"state"`
	Why     string   `json:"why,omitempty"`
	Tools   int      `json:"tools"`
	Notes   []string `json:"notes,omitempty"`
}

func (a *App) cmdMCPList() *cobra.Command {
	var file string
	var start bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "The MCP servers, and whether they can be used",
		Long: `List the MCP servers that a node started here would have, and what is wrong with those that it could not
use. With --start each is started, which finds the rest of what can be wrong; they end with this command.`,
		Example: `  symbio mcp list
  symbio mcp list --start`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withMCP(cmd.Context(), file, func(ctx context.Context, m *mcp.Manager) error {
				if start {
					m.Start(ctx)
				}
				return a.listMCP(m.Status())
			})
		},
	}
	cmd.Flags().BoolVar(&start, "start", false, "start each of them")
	cmd.Flags().StringVar(&file, "config", "", "configuration file")
	return cmd
}

func (a *App) listMCP(all []mcp.Status) error {
	list := []mcpServerJSON{}
	rows := [][]string{}
	for _, s := range all {
		target := s.Server.URL
		if s.Server.Type == mcp.Stdio {
			target = s.Server.Command
		}
		j := mcpServerJSON{s.Server.Name, prefixOf(s.Server), s.Server.Type, target, s.Server.Project, s.Server.File, s.Server.Line, s.Server.Hash, string(s.State), s.Why, s.Tools, s.Notes}
		list = append(list, j)
		tools := ""
		if s.State == mcp.Ready {
			tools = strconv.Itoa(s.Tools)
		}
		rows = append(rows, []string{j.Name, j.Type, j.State, tools, j.Prefix + "*", fmt.Sprintf("%s:%d", j.File, j.Line), short(j.Why, 300)})
	}
	if a.json {
		return a.printJSON(list)
	}
	return a.table([]string{"NAME", "TYPE", "STATE", "TOOLS", "RULE", "AT", "WHY"}, rows)
}

// mcpToolJSON is a tool in the output; the names are a contract.
type mcpToolJSON struct {
	Name        string          `json:"name"`
	Server      string          `json:"server"`
	Tool        string          `json:"tool"`
	Description string          `json:"description"`
	Input       json.RawMessage `json:"input"`
	Output      json.RawMessage `json:"output,omitempty"`
	SHA256      string          `json:"sha256,omitempty"`
	// Changed: it is not what it was when it was first let run.
	Changed bool `json:"changed"`
}

func (a *App) cmdMCPTools() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "tools [SERVER]",
		Short: "The tools of the MCP servers, as agents have them",
		Example: `  symbio mcp tools
  symbio mcp tools files --json      # with their schemas`,
		Args: rangeArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withMCP(cmd.Context(), file, func(ctx context.Context, m *mcp.Manager) error {
				server := append(args, "")[0]
				tools, err := m.ToolsOf(ctx, server)
				if tools == nil && err != nil {
					return mcpError(err)
				}
				if err != nil {
					for _, line := range strings.Split(err.Error(), "\n") {
						fmt.Fprintln(a.Err, "note:", printable(line))
					}
				}
				return a.listMCPTools(tools)
			})
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration file")
	return cmd
}

func (a *App) listMCPTools(tools []*mcp.Tool) error {
	list := []mcpToolJSON{}
	rows := [][]string{}
	for _, t := range tools {
		spec, changed := t.Spec(), t.Doubt() != ""
		list = append(list, mcpToolJSON{spec.Name, t.Server(), t.Name, spec.Description, spec.Schema, t.Output, t.Hash, changed})
		mark := ""
		if changed {
			mark = "changed"
		}
		rows = append(rows, []string{spec.Name, mark, short(spec.Description, 80)})
	}
	if a.json {
		return a.printJSON(list)
	}
	return a.table([]string{"NAME", "NOTE", "DESCRIPTION"}, rows)
}

// short is the begin of a text that has to stand in a table.
func short(text string, most int) string {
	runes := []rune(printable(text))
	if len(runes) <= most {
		return string(runes)
	}
	return string(runes[:most-1]) + "…"
}

// mcpAnswerJSON is an answer in the output; the names are a contract.
type mcpAnswerJSON struct {
	Text       string          `json:"text"`
	Structured json.RawMessage `json:"structured,omitempty"`
	Content    json.RawMessage `json:"content,omitempty"`
	IsError    bool            `json:"is_error"`
}

func (a *App) cmdMCPCall() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "call SERVER TOOL [ARGS]",
		Short: "Call a tool of an MCP server",
		Long: `Call a tool of an MCP server and print what it answers. ARGS is a JSON object; - reads it from standard
input. What the server tells of its progress is shown on standard error; Ctrl-C cancels the call there. Nobody is asked:
it is you who calls. With --json the answer comes as the server sent it, pictures included.`,
		Example: `  symbio mcp call files read_text_file '{"path": "notes.md"}'
  symbio mcp call everything get-sum '{"a": 2, "b": 3}' --json`,
		Args: rangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			call, err := a.toolCall(args[1], append(args, "")[2])
			if err != nil {
				return err
			}
			return a.withMCP(cmd.Context(), file, func(ctx context.Context, m *mcp.Manager) error {
				t, err := m.Tool(ctx, args[0], args[1])
				if err != nil {
					return mcpError(err)
				}
				if why := t.Doubt(); why != "" {
					fmt.Fprintln(a.Err, "note:", why)
				}
				answer, err := t.Call(ctx, call.Args, a.tellProgress)
				if err != nil {
					return mcpError(err)
				}
				return a.printMCP(answer)
			})
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration file")
	return cmd
}

func (a *App) tellProgress(p community.Progress) {
	text := printable(p.Message)
	if p.Total > 0 {
		text = fmt.Sprintf("%g of %g %s", p.Done, p.Total, text)
	} else if text == "" {
		text = fmt.Sprintf("%g", p.Done)
	}
	fmt.Fprintln(a.Err, "progress:", text)
}

func (a *App) printMCP(answer mcp.Answer) error {
	var err error
	if a.json {
		err = a.printJSON(mcpAnswerJSON{answer.Text, answer.Data, answer.Content, answer.IsError})
	} else {
		_, err = fmt.Fprintln(a.Out, tool.Readable([]byte(answer.Text)))
	}
	if err == nil && answer.IsError {
		err = errors.New("the tool says that it failed")
	}
	return err
}

// mcpError gives an error of a server its exit status.
func mcpError(err error) error {
	switch {
	case errors.Is(err, mcp.ErrUnknown):
		return notFound(fmt.Errorf("%w; `symbio mcp list` and `symbio mcp tools` show those here", err))
	case errors.Is(err, mcp.ErrNotReady):
		return unavailable(err)
	}
	return err
}

// prefixOf is how the names of a server's tools begin.
func prefixOf(s mcp.Server) string { return "mcp__" + mcp.ServerPart(s.Name) + "__" }
