package agentcmd

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
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/community"
	"symbio/internal/agent/node/agentinfo"
	"symbio/internal/security/visible"
	"symbio/security/permission"
)

// cmdTools returns the command tools, which groups the commands for the tools of agents. They need
// no running node. Tools run in this process, with the rules and the sandbox that a node started
// here would use.
func cmdTools(env *command.Env) *cobra.Command {
	cmd := &cobra.Command{Use: "tools", Args: command.NoArgs, RunE: command.RequireSubcommand}
	cmd.AddCommand(cmdToolsList(env), cmdToolsCall(env))
	return cmd
}

// toolFlags are the flags of both commands.
type toolFlags struct {
	// config is a path, "" for the user's own file; agent is "general" by default.
	config, agent string
}

// add registers the flags with cmd.
func (f *toolFlags) add(a *command.Env, cmd *cobra.Command) {
	command.ConfigFlag(cmd, &f.config)
	cmd.Flags().StringVar(&f.agent, "agent", "general", "`NAME` of the agent's definition")
	// The only error is an unknown flag, and the flag was registered above.
	_ = cmd.RegisterFlagCompletionFunc("agent", completeAgents(a))
}

// toolJSON is one tool. The JSON names are a contract.
type toolJSON struct {
	Name string `json:"name"`
	// Description is the text that models read.
	Description string `json:"description"`
	// Input is the JSON schema of the arguments.
	Input json.RawMessage `json:"input"`
}

// cmdToolsList returns the command tools list. Without --mcp the tools of MCP servers are missing,
// because a server must run to list them. Its exit status is 4 if there is no such agent.
func cmdToolsList(env *command.Env) *cobra.Command {
	var flags toolFlags
	var servers bool
	cmd := &cobra.Command{
		Use:  "list",
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts, err := command.NodeConfig(env, flags.config)
			if err != nil {
				return err
			}
			return withInspection(cmd.Context(), env, opts, func(o *agentinfo.Inspection) error {
				ctx := cmd.Context()
				if servers {
					ctx = agentinfo.WithServers(ctx)
				}
				d, err := o.Definition(flags.agent)
				if err != nil {
					return command.NotFound(err)
				}
				// No rules are added and no person is asked: nothing is called.
				has, err := o.Agent(ctx, d, nil, nil)
				if err != nil {
					return err
				}
				return listTools(env, has.Tools.Specs())
			})
		},
	}
	flags.add(env, cmd)
	cmd.Flags().BoolVar(&servers, "mcp", false, "start the MCP servers to list their tools")
	return cmd
}

// listTools prints tools, with the first line of their descriptions for people. The list is in the
// order in which models are shown the tools.
func listTools(env *command.Env, specs []llm.ToolSpec) error {
	list := command.Map(specs, func(s llm.ToolSpec) toolJSON { return toolJSON{s.Name, s.Description, s.Schema} })
	return command.PrintList(env, list, []string{"NAME", "DESCRIPTION"}, func(t toolJSON) []string {
		first, _, _ := strings.Cut(t.Description, "\n")
		return []string{t.Name, visible.TruncateRunes(terminal.Printable(first), 100)}
	})
}

// toolResultJSON is the result of a call. The JSON names are a contract.
type toolResultJSON struct {
	// Text is the result as a model would read it.
	Text string `json:"text"`
	// IsError is true when the tool failed, Denied when a rule or the person refused the call.
	IsError bool `json:"is_error"`
	Denied  bool `json:"denied"`
}

// cmdToolsCall returns the command tools call, which runs one tool with the permissions and the
// sandbox of an agent. Its exit status is 3 if the call is denied, 1 if the tool fails, 4
// for an unknown agent or tool, and 2 for arguments that are no JSON object. The tool works in the
// current directory and really changes files.
func cmdToolsCall(env *command.Env) *cobra.Command {
	var flags toolFlags
	var allow []string
	cmd := &cobra.Command{
		Use:  "call TOOL [ARGS]",
		Args: command.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := command.NodeConfig(env, flags.config)
			if err != nil {
				return err
			}
			text, err := readArgs(env, append(args, "")[1])
			if err != nil {
				return err
			}
			return withInspection(cmd.Context(), env, opts, func(o *agentinfo.Inspection) error {
				rules, err := parseRules(o, allow)
				if err != nil {
					return err
				}
				return callTool(cmd.Context(), env, o, flags.agent, rules, llm.ToolCall{ID: "1", Name: args[0], Args: text})
			})
		},
	}
	flags.add(env, cmd)
	cmd.Flags().StringArrayVar(&allow, "yes-to", nil, "`RULE` to allow for this call, such as 'Write(notes/*)'; may be repeated")
	return cmd
}

// readArgs returns the arguments of a call: text, or standard input for "-". They must be a JSON
// object; anything else is wrong usage. Blank text is an object without members, for tools that
// need no arguments.
func readArgs(env *command.Env, text string) (json.RawMessage, error) {
	if text == "-" {
		data, err := io.ReadAll(env.In)
		if err != nil {
			return nil, fmt.Errorf("reading standard input: %w", err)
		}
		text = string(data)
	}
	if strings.TrimSpace(text) == "" {
		text = "{}"
	}
	if _, err := tool.DecodeArgs([]byte(text)); err != nil {
		return nil, command.Usage(fmt.Errorf("ARGS: want a JSON object such as {\"file_path\": \"notes.md\"}: %w", err))
	}
	return json.RawMessage(text), nil
}

// parseRules parses the rules of --yes-to. A wrong one is wrong usage. A denial of the
// configuration wins over them.
func parseRules(o *agentinfo.Inspection, texts []string) (rules []permission.Rule, err error) {
	for _, text := range texts {
		r, err := o.ParseAllow(text)
		if err != nil {
			return nil, command.Usage(err)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// callTool calls one tool as the agent of that definition would, and prints the result. allow are
// additional rules for this call. It blocks until the tool has ended or ctx ends. It sets o.Report,
// so an Inspection serves one call.
func callTool(ctx context.Context, env *command.Env, o *agentinfo.Inspection, name string, allow []permission.Rule, call llm.ToolCall) error {
	d, err := o.Definition(name)
	if err != nil {
		return command.NotFound(err)
	}
	// Run reports the decision before it returns, so refused is final below.
	refused := false
	// The decision about the call is an event of the agent, not a part of the result.
	o.Report = func(e event.Event) {
		switch p := e.Part.(type) {
		case event.Decision:
			refused = !p.Approved
		case event.Tool:
			if e.Type == event.TypeProgress {
				command.NoteProgress(env, community.Progress{Message: e.Text, Done: p.Done, Total: p.Total})
			}
		}
	}
	// Only a tool of an MCP server needs the servers to be started.
	toolsCtx := ctx
	if strings.HasPrefix(call.Name, "mcp__") {
		toolsCtx = agentinfo.WithServers(ctx)
	}
	has, err := o.Agent(toolsCtx, d, allow, approver(env))
	if err != nil {
		return err
	}
	switch names := has.Tools.Names(); {
	// Names are checked before the call so that a typo has exit status 4 and lists the tools there
	// are.
	case !slices.Contains(names, call.Name):
		return command.NotFound(fmt.Errorf("an agent of %s has no tool %q; there are %s", d.Name, terminal.Printable(call.Name), strings.Join(names, ", ")))
	// Tools such as those for sub-agents act on the agent that calls them, which does not exist
	// here.
	case !o.Free(call.Name):
		return command.Usage(fmt.Errorf("%s needs a running agent; give one a task with symbio run", call.Name))
	}
	result := has.Tools.Run(ctx, []llm.ToolCall{call})[0]
	return printToolResult(env, result, refused)
}

// printToolResult prints a result. refused says that a rule or the person denied the call. A
// refused call prints its reason as the error only, so that standard output stays empty.
func printToolResult(env *command.Env, r llm.ToolResult, refused bool) error {
	if env.JSON {
		if err := env.PrintJSON(toolResultJSON{r.Text, r.IsError, refused}); err != nil {
			return err
		}
	} else if !refused {
		if err := env.PrintText(r.Text); err != nil {
			return err
		}
	}
	switch {
	case refused:
		return command.Denied(errors.New(r.Text))
	case r.IsError:
		return errors.New("the tool reported an error")
	}
	return nil
}

// approver returns a function that asks the person at the terminal about a call; nil without a
// terminal, so that calls which need approval are denied. The function blocks until the person
// answers. It must not be called by two goroutines at once.
func approver(env *command.Env) func(context.Context, agent.ApprovalRequest) tool.Answer {
	if !env.InIsTerminal {
		return nil
	}
	ask := env.Confirm
	return func(ctx context.Context, d agent.ApprovalRequest) tool.Answer {
		// The person decides about what is shown, so a call that cannot be shown is denied.
		args, err := json.Marshal(d.Shown())
		if err != nil {
			return tool.Answer{Why: "It cannot be shown."}
		}
		// An error means that the command was interrupted, which counts as a no.
		yes, _ := ask(ctx, fmt.Sprintf("This call of %s needs a yes:\n%s\n  %s\nAllow it?", visible.Escape(d.Tool), command.CallText(d.Tool, args), visible.Escape(d.Verdict.Why)))
		return tool.Answer{Allow: yes, By: "terminal"}
	}
}
