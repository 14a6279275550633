package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"symbio/agent"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/cmd/symbio/internal/node"
	"symbio/community"
	"symbio/security/permission"
)

func (a *App) cmdTools() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "The tools that agents have, and calls of them by hand",
		Example: `  symbio tools list --agent reviewer
  symbio tools call Glob '{"pattern": "*.go"}'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.cmdToolsList(), a.cmdToolsCall())
	return cmd
}

// toolFlags are those of both commands.
type toolFlags struct {
	config, agent string
}

func (f *toolFlags) add(a *App, cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.config, "config", "", "configuration file")
	cmd.Flags().StringVar(&f.agent, "agent", "general", "the definition of the agent")
	_ = cmd.RegisterFlagCompletionFunc("agent", a.completeAgents) // the flag is there
}

// toolJSON is a tool in the output; the names are a contract.
type toolJSON struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Input       json.RawMessage `json:"input"`
}

func (a *App) cmdToolsList() *cobra.Command {
	var flags toolFlags
	var servers bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "What tools an agent would have",
		Long: `List the tools that an agent would have on a node started here. With --mcp the MCP servers are started, to
list their tools, too; they end with this command.`,
		Example: `  symbio tools list
  symbio tools list --agent reviewer --mcp --json      # with their schemas`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts, err := a.agentOptions(flags.config)
			if err != nil {
				return err
			}
			return a.withOutlook(cmd.Context(), opts, func(o *node.Outlook) error {
				ctx := cmd.Context()
				if servers {
					ctx = node.WithServers(ctx)
				}
				d, err := o.Definition(flags.agent)
				if err != nil {
					return notFound(err)
				}
				has, err := o.Agent(ctx, d, nil, nil)
				if err != nil {
					return err
				}
				return a.listTools(has.Tools.Specs())
			})
		},
	}
	flags.add(a, cmd)
	cmd.Flags().BoolVar(&servers, "mcp", false, "start the MCP servers, and list their tools")
	return cmd
}

func (a *App) listTools(specs []llm.ToolSpec) error {
	list := []toolJSON{}
	rows := [][]string{}
	for _, s := range specs {
		list = append(list, toolJSON{s.Name, s.Description, s.Schema})
		first, _, _ := strings.Cut(s.Description, "\n")
		rows = append(rows, []string{s.Name, short(first, 100)})
	}
	if a.json {
		return a.printJSON(list)
	}
	return a.table([]string{"NAME", "DESCRIPTION"}, rows)
}

// calledJSON is what came of a call in the output; the names are a contract.
type calledJSON struct {
	Text    string `json:"text"`
	IsError bool   `json:"is_error"`
	Denied  bool   `json:"denied"`
}

func (a *App) cmdToolsCall() *cobra.Command {
	var flags toolFlags
	var allow []string
	cmd := &cobra.Command{
		Use:   "call TOOL [ARGS]",
		Short: "Call a tool as an agent would",
		Long: `Call a tool as an agent of a node started here would: under the configured permissions, those of the agent's
definition, and its sandbox. ARGS is a JSON object; - reads it from standard input. What a rule would ask about is asked
on the terminal; without one it is denied. Tools for other agents and skills need an agent that lives: symbio run.`,
		Example: `  symbio tools call Read '{"file_path": "notes.md"}'
  symbio tools call Bash '{"command": "go version"}' --yes-to 'Bash(go version)'
  symbio tools call Bash '{"command": "git status"}' --agent reviewer`,
		Args: rangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := a.agentOptions(flags.config)
			if err != nil {
				return err
			}
			text, err := a.argsOf(append(args, "")[1])
			if err != nil {
				return err
			}
			rules, err := parsedRules(allow)
			if err != nil {
				return err
			}
			return a.withOutlook(cmd.Context(), opts, func(o *node.Outlook) error {
				return a.callTool(cmd.Context(), o, flags.agent, rules, llm.ToolCall{ID: "1", Name: args[0], Args: text})
			})
		},
	}
	flags.add(a, cmd)
	cmd.Flags().StringArrayVar(&allow, "yes-to", nil, "a rule to allow for this call, such as 'Write(notes/*)'; may be repeated")
	return cmd
}

// argsOf reads the arguments of a call.
func (a *App) argsOf(text string) (json.RawMessage, error) {
	if text == "-" {
		data, err := io.ReadAll(a.In)
		if err != nil {
			return nil, fmt.Errorf("reading standard input: %w", err)
		}
		text = string(data)
	}
	if strings.TrimSpace(text) == "" {
		text = "{}"
	}
	if _, err := tool.DecodeArgs([]byte(text)); err != nil {
		return nil, usage(fmt.Errorf("ARGS: want a JSON object such as {\"file_path\": \"notes.md\"}: %w", err))
	}
	return json.RawMessage(text), nil
}

func parsedRules(texts []string) (rules []permission.Rule, err error) {
	for _, text := range texts {
		r, err := permission.ParseRule(text)
		if err != nil {
			return nil, usage(err)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func (a *App) callTool(ctx context.Context, o *node.Outlook, name string, allow []permission.Rule, call llm.ToolCall) error {
	d, err := o.Definition(name)
	if err != nil {
		return notFound(err)
	}
	denied := false
	o.Report = func(e agent.Event) {
		switch e.Type {
		case agent.EventDecision:
			denied = e.Approved != nil && !*e.Approved
		case agent.EventProgress:
			a.tellProgress(community.Progress{Message: e.Text, Done: e.Done, Total: e.Total})
		}
	}
	look := ctx
	if strings.HasPrefix(call.Name, "mcp__") {
		look = node.WithServers(ctx)
	}
	has, err := o.Agent(look, d, allow, a.asker())
	if err != nil {
		return err
	}
	switch names := has.Tools.Names(); {
	case !slices.Contains(names, call.Name):
		return notFound(fmt.Errorf("an agent of %s has no tool %q; there are %s", d.Name, printable(call.Name), strings.Join(names, ", ")))
	case !o.Free(call.Name):
		return usage(fmt.Errorf("%s is for an agent that lives; give one a task: symbio run", call.Name))
	}
	result := has.Tools.Run(ctx, []llm.ToolCall{call})[0]
	return a.printCalled(result, denied)
}

func (a *App) printCalled(r llm.ToolResult, denied bool) error {
	if a.json {
		if err := a.printJSON(calledJSON{r.Text, r.IsError, denied}); err != nil {
			return err
		}
	} else if !denied {
		if err := a.printText(r.Text); err != nil {
			return err
		}
	}
	switch {
	case denied:
		return &statusError{exitDenied, errors.New(r.Text)}
	case r.IsError:
		return errors.New("the tool says that it failed")
	}
	return nil
}

// asker asks the person at the terminal; nil when there is none.
func (a *App) asker() func(context.Context, agent.Asked) tool.Answer {
	if !a.InIsTerminal {
		return nil
	}
	answers := a.typed()
	return func(ctx context.Context, d agent.Asked) tool.Answer {
		args, err := json.Marshal(d.Shown())
		if err != nil {
			return tool.Answer{Why: "It cannot be shown."}
		}
		fmt.Fprintf(a.Err, "This call of %s needs a yes:\n%s\n  %s\nAllow it? [y/N] ", visible(d.Tool), indented(args), visible(d.Verdict.Why))
		line, err := answers(ctx)
		said := strings.ToLower(strings.TrimSpace(line))
		return tool.Answer{Allow: err == nil && (said == "y" || said == "yes"), By: "terminal"}
	}
}
