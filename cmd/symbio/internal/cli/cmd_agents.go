package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"symbio/agent"
	"symbio/cmd/symbio/internal/node"
)

func (a *App) cmdAgents() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agents",
		Short: "The definitions of agents",
		Long: `Agents are defined in Markdown files, NAME.md, in the directory that agents: in the configuration names. Above
the text, which is the start of the system prompt, stands between two lines of --- what the agent is:

  name, description     what it is called, and what it is for; both are needed
  model                 as in the configuration: one, or a list; without: the node's
  tools                 "*", or a list of names, presets (preset:read_only) and tools of MCP servers (mcp__SERVER__*)
  skills                those that it has from the start
  accepts               perceptions by which it takes tasks; its name is one, too
  permissions           preset, allow, deny, final_deny, override, default: what it may do of what the node allows
  guardrail             the same and ask, around it and all that works for it here; or the name of a preset
  sandbox               preset, network, write, env, subprocess, limits: what commands may do less than on the node
  budget                the limits of the configuration's budget; of each the smaller counts
  max_turns             how often the model is asked for one task
  thinking              true, false, or how many tokens the model may think

None of them gives an agent more than the node has for it. An agent answers for a capability where the configuration
says so: capabilities: [{name: review, agent: reviewer}].`,
		Example: `  symbio agents list
  symbio agents show reviewer
  symbio agents validate agents/reviewer.md`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.cmdAgentsList(), a.cmdAgentsShow(), a.cmdAgentsValidate())
	return cmd
}

// agentJSON is a definition in the output; the names are a contract.
type agentJSON struct {
	Name         string   `json:"name"`
	Description  string   `json:"description"`
	Model        string   `json:"model"` // "" = the node's
	Accepts      []string `json:"accepts"`
	Tools        []string `json:"tools"` // as they are written; ["*"] = all
	Skills       []string `json:"skills"`
	Capabilities []string `json:"capabilities"` // that it answers
	Path         string   `json:"path"`         // "" = it is built in
}

func agentOf(d agent.Definition, offered map[string][]string) agentJSON {
	tools := d.Tools
	if tools == nil {
		tools = []string{"*"}
	}
	return agentJSON{
		Name: d.Name, Description: d.Description, Model: d.Model, Accepts: d.Accepts, Tools: tools,
		Skills: append([]string{}, d.Skills...), Capabilities: append([]string{}, offered[d.Name]...), Path: d.File,
	}
}

func (a *App) cmdAgentsList() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "The definitions that a node started here would have",
		Long: `List the definitions that a node started here would have, and the capabilities that they answer. What is
wrong with the others is on standard error; with one of them the node does not start.`,
		Example: `  symbio agents list
  symbio agents list --config kitchen.yaml --json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			opts, err := a.agentOptions(file)
			if err != nil {
				return err
			}
			all, problems := opts.Definitions(node.Known(nil))
			a.printProblems(problems)
			for _, err := range opts.UnknownAgents(all) {
				fmt.Fprintln(a.Err, "note:", printable(err.Error()))
			}
			return a.listAgents(all, opts.OfferedBy())
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration file")
	return cmd
}

func (a *App) agentOptions(file string) (node.Options, error) {
	c, _, err := a.loadConfig(file)
	if err != nil {
		return node.Options{}, err
	}
	return a.nodeOptions(c)
}

// printProblems says what is left out. None is not there without a word.
func (a *App) printProblems(problems error) {
	if problems == nil {
		return
	}
	for line := range strings.SplitSeq(problems.Error(), "\n") {
		fmt.Fprintln(a.Err, "left out:", printable(line))
	}
}

func (a *App) listAgents(all map[string]agent.Definition, offered map[string][]string) error {
	list := []agentJSON{}
	rows := [][]string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		one := agentOf(all[name], offered)
		list = append(list, one)
		path := one.Path
		if path == "" {
			path = "built in"
		}
		rows = append(rows, []string{one.Name, one.Model, strings.Join(one.Accepts, ","), strings.Join(one.Capabilities, ","), path, clip(one.Description, 100)})
	}
	if a.json {
		return a.printJSON(list)
	}
	return a.table([]string{"NAME", "MODEL", "ACCEPTS", "CAPABILITIES", "PATH", "DESCRIPTION"}, rows)
}

// withOutlook does something with what agents here would have.
func (a *App) withOutlook(ctx context.Context, opts node.Options, do func(*node.Outlook) error) (err error) {
	o, err := opts.Outlook(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	return do(o)
}

// completeAgents offers the names of definitions to a shell.
func (a *App) completeAgents(_ *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	opts, err := a.agentOptions("")
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, _ := opts.Definitions(agent.Known{})
	var names []cobra.Completion
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(name, begun) {
			names = append(names, cobra.CompletionWithDesc(name, clip(all[name].Description, 80)))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
