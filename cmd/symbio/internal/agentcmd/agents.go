// Package agentcmd has the command `symbio agents`: it lists, checks and adds definitions of agents, shows and
// runs their tools, and lists models, which needs no running node; and it starts, steers, inspects and
// ends the agents of a node.
package agentcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"symbio/agent/definition"
	"symbio/agent/node"
	"symbio/agent/node/config"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/internal/agent/node/agentinfo"
	"symbio/internal/security/visible"
	"symbio/skills"
)

// New returns the command agents, which groups the commands for agent definitions, which need
// no running node, and for the agents that a node runs.
func New(env *command.Env) *cobra.Command {
	cmd := &cobra.Command{Use: "agents", Args: command.NoArgs, RunE: command.RequireSubcommand}
	cmd.AddCommand(cmdAgentsAdd(env), cmdAgentsList(env), cmdAgentsShow(env), cmdAgentsValidate(env), cmdTools(env))
	cmd.AddCommand(command.NodeFlag(env, cmdAgentsInspect(env), cmdSpawn(env), cmdSteer(env), cmdTerminate(env), cmdModels(env))...)
	return cmd
}

// cmdAgentsList returns the command agents list. Definitions with errors are reported on standard
// error and left out. Its exit status is 0 even then; `symbio agents validate` fails for broken
// definitions.
func cmdAgentsList(env *command.Env) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:  "list",
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			opts, err := command.NodeConfig(env, file)
			if err != nil {
				return err
			}
			// Without a catalog the names of skills are not checked: a scan of the disk would make
			// the list slow.
			all, problems := opts.Definitions(node.Known(nil))
			printProblems(env, problems)
			if _, text := all.Warned(); text != "" {
				env.Notef("note: %s", text)
			}
			for _, err := range opts.UnknownAgents(all) {
				env.Notef("note: %s", err.Error())
			}
			return listAgents(env, all, opts.Settings.OfferedBy())
		},
	}
	command.ConfigFlag(cmd, &file)
	return cmd
}

// printProblems prints each line of an error to standard error, so that no definition is missing
// without a reason. Each line is one definition.Problem.
func printProblems(env *command.Env, problems error) {
	if problems == nil {
		return
	}
	for line := range strings.SplitSeq(problems.Error(), "\n") {
		env.Notef("left out: %s", line)
	}
}

// listAgents prints definitions in the order of their names. offered has the capabilities by the
// agent that serves them. An agent that is built in has no path.
func listAgents(env *command.Env, all map[string]definition.Definition, offered map[string][]string) error {
	list := command.Map(slices.Sorted(maps.Keys(all)), func(name string) agentinfo.Summary { return agentinfo.Summarize(all[name], offered) })
	return command.PrintList(env, list, []string{"NAME", "MODEL", "ACCEPTS", "CAPABILITIES", "PATH", "DESCRIPTION"}, func(d agentinfo.Summary) []string {
		path := cmp.Or(d.Path, "built in")
		return []string{d.Name, d.Model, strings.Join(d.Accepts, ","), strings.Join(d.Capabilities, ","), path, visible.TruncateRunes(d.Description, 100)}
	})
}

// withInspection calls do with the agents that a node started here would have, and releases what
// that opened. It blocks until MCP servers that do started have ended. The errors of do and of the
// release are joined.
func withInspection(ctx context.Context, env *command.Env, opts node.Config, do func(*agentinfo.Inspection) error) (err error) {
	o, err := agentinfo.Inspect(ctx, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	return do(o)
}

// completeAgents returns a function that completes the names of definitions in a shell. It stays
// silent on errors. It completes the first argument only, and never offers files.
func completeAgents(env *command.Env) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, begun string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
		opts, err := command.NodeConfig(env, "")
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all, _ := opts.Definitions(definition.Loader{})
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if strings.HasPrefix(name, begun) {
				names = append(names, cobra.CompletionWithDesc(name, visible.TruncateRunes(all[name].Description, 80)))
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// cmdAgentsShow returns the command agents show. With --mcp the MCP servers are started to list
// their tools, and stopped at the end. Its exit status is 4 if there is no such definition. Without
// --mcp nothing is started, because a server is a program of another author.
func cmdAgentsShow(env *command.Env) *cobra.Command {
	var file string
	var servers bool
	cmd := &cobra.Command{
		Use:               "show NAME",
		Args:              command.ExactArgs(1),
		ValidArgsFunction: completeAgents(env),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := command.NodeConfig(env, file)
			if err != nil {
				return err
			}
			return withInspection(cmd.Context(), env, opts, func(o *agentinfo.Inspection) error {
				ctx := cmd.Context()
				if servers {
					ctx = agentinfo.WithServers(ctx)
				}
				d, err := o.Definition(args[0])
				if err != nil {
					// The error tells a missing definition from a broken one.
					return command.NotFound(err)
				}
				shown, err := agentinfo.Look(ctx, o, opts, d)
				if err != nil {
					return err
				}
				if env.JSON {
					return env.PrintJSON(shown)
				}
				return env.PrintText(agentText(shown))
			})
		},
	}
	command.ConfigFlag(cmd, &file)
	cmd.Flags().BoolVar(&servers, "mcp", false, "start the MCP servers to show their tools")
	return cmd
}

// agentText returns a definition for a person: a line for each property, and the rules below. Each
// block of rules must allow a call. A property without a value has no line.
func agentText(s *agentinfo.Agent) string {
	var b strings.Builder
	line := func(key, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-13s %s\n", key, terminal.Printable(value))
		}
	}
	list := func(all []string) string { return strings.Join(all, ", ") }
	line("name", s.Name)
	line("description", s.Description)
	line("file", cmp.Or(s.Path, "built in"))
	// s.Model is empty when the definition names no model; then the node's is in force.
	line("model", s.ModelInForce+map[bool]string{true: " (the node's)"}[s.Model == ""])
	line("thinking", thinkingText(s.Thinking))
	line("effort", s.Effort)
	if s.Temperature != nil {
		line("temperature", strconv.FormatFloat(*s.Temperature, 'g', -1, 64))
	}
	line("accepts", list(s.Accepts))
	line("capabilities", list(s.Capabilities))
	line("tools", cmp.Or(list(s.Has), "none"))
	// These are tools that the definition names and this node does not have.
	line("not here", list(s.HasNot))
	line("mcp", list(s.MCPServers))
	line("skills", list(s.Skills))
	line("not found", list(s.SkillsNot))
	for _, w := range s.Warnings {
		line("note", fmt.Sprintf("line %d: %s", w.Line, w.Reason))
	}
	line("turns", strconv.Itoa(s.MaxTurns)+" for a task")
	line("placement", s.Placement+map[bool]string{true: " repeatable"}[s.Repeatable])
	line("limits", limitsText(s.Limits))
	line("sandbox", sandboxText(s.Sandbox))
	for _, l := range s.Rules {
		fmt.Fprintf(&b, "\nrules of %s", l.Of)
		if l.Default != "" {
			fmt.Fprintf(&b, "; default: %s", l.Default)
		}
		b.WriteString("\n")
		for _, r := range l.Rules {
			fmt.Fprintf(&b, "  %-11s %s  (%s)\n", r.List, terminal.Printable(r.Rule), terminal.Printable(r.At))
		}
	}
	return b.String()
}

// thinkingText returns the thinking budget; "" means that the provider's default holds. A negative
// number switches thinking off.
func thinkingText(tokens int) string {
	switch {
	case tokens < 0:
		return "none"
	case tokens > 0:
		return strconv.Itoa(tokens) + " tokens"
	}
	return ""
}

// limitsText returns the limits of an agent and its sub-agents in one line. Wall is in seconds in
// the JSON and a duration here. A cost of 0 is no limit and is left out.
func limitsText(l agentinfo.Limits) string {
	text := fmt.Sprintf("%s, %d deep, %d a minute; for a task %s, %s of models, %s", visible.Plural(l.Agents, "sub-agent"), l.Depth, l.SpawnsPerMinute, time.Duration(l.Wall*float64(time.Second)),
		visible.Plural(l.ModelCalls, "call"), visible.Plural(int(l.Tokens), "token"))
	if l.Cost > 0 {
		text += fmt.Sprintf(", cost %g", l.Cost)
	}
	return text
}

// sandboxText returns what the commands of an agent may do, in one line. It is one line of agents
// show; --json has the paths that can be read and the sockets, too.
func sandboxText(h agentinfo.Sandbox) string {
	if h.Off {
		return "off, by the node's configuration"
	}
	text := "network " + h.Network + "; writes " + cmp.Or(strings.Join(h.Write, ", "), "nothing")
	if !h.Subprocess {
		text += "; no further programs"
	}
	if len(h.Env) > 0 {
		text += "; variables " + strings.Join(h.Env, ", ")
	}
	return text + fmt.Sprintf("; %gs of CPU, files of %s, memory %s", h.CPU, config.Size(h.FileSize), config.Size(h.Memory))
}

// definitionJSON is the verdict on one definition. The JSON names are a contract. One object is
// printed for each definition, on a line of its own.
type definitionJSON struct {
	// Path is the file as it was found: the argument, or the directory and the name.
	Path string `json:"path"`
	// Name is the agent's name, "" if it cannot be read.
	Name string `json:"name"`
	// OK is true when there are no problems.
	OK bool `json:"ok"`
	// Problems has each error with its line, counted from 1; [] if there are none.
	Problems []definition.Problem `json:"problems"`
	// Warnings say what is read otherwise than its author may think.
	Warnings []definition.Problem `json:"warnings,omitempty"`
}

// cmdAgentsValidate returns the command agents validate. Its exit status is 1 if any definition has
// an error, and 4 if a path does not exist. Without arguments it checks the directory of the
// configuration.
func cmdAgentsValidate(env *command.Env) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "validate [FILE|DIR...]",
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := command.NodeConfig(env, file)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				if opts.Settings.Agents == "" {
					return command.Usage(errors.New("the configuration names no directory of agents; give files or directories as arguments"))
				}
				args = []string{opts.Settings.Agents}
			}
			return validateAgents(cmd.Context(), env, opts, args)
		},
	}
	command.ConfigFlag(cmd, &file)
	return cmd
}

// validateAgents checks each definition and prints its verdict as it is reached. Names of tools,
// skills, models and MCP servers are checked against what a node started here would have. It stops
// at the first error of writing; errors of definitions do not stop it.
func validateAgents(ctx context.Context, env *command.Env, opts node.Config, args []string) error {
	files, err := definitionFiles(args)
	if err != nil {
		return err
	}
	var catalog *skills.Catalog
	if opts.Settings.Skills.Enabled {
		found, err := skills.Scan(ctx, opts.Skills().Registry())
		if err != nil {
			return err
		}
		// Without a catalog, the names of skills in definitions are not checked.
		catalog = &found
	}
	known, err := opts.KnownHere(catalog)
	if err != nil {
		return err
	}
	// A definition counts once, however many problems it has.
	bad := 0
	for _, file := range files {
		d, problems := known.Read(file)
		if len(problems) > 0 {
			bad++
		}
		if err := printVerdict(env, file, d, problems); err != nil {
			return err
		}
	}
	counted := visible.Plural(len(files), "definition")
	if bad > 0 {
		return fmt.Errorf("%d of %s not ok", bad, counted)
	}
	if env.OutIsTerminal {
		env.Notef("%s, all ok", counted)
	}
	return nil
}

// definitionFiles returns the definition files of the arguments, each once: a file as it is, of a
// directory all *.md in it. Directories below a directory are not searched, as by a node. Its error
// has exit status 4 for a path that does not exist, and 1 when there is no definition at all.
func definitionFiles(args []string) (files []string, err error) {
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, command.NotFound(err)
		}
		if !info.IsDir() {
			// A file is checked whatever its name is, so that a misnamed one gets a verdict, too.
			files = append(files, arg)
			continue
		}
		entries, err := os.ReadDir(arg)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			// A node loads the files of this pattern from its directory of agents.
			if !e.IsDir() && filepath.Ext(e.Name()) == ".md" {
				files = append(files, filepath.Join(arg, e.Name()))
			}
		}
	}
	// The order of the arguments is kept. Two spellings of one path count as two.
	seen := map[string]bool{}
	files = slices.DeleteFunc(files, func(f string) bool {
		before := seen[f]
		seen[f] = true
		return before
	})
	if len(files) == 0 {
		return nil, fmt.Errorf("no definitions (NAME.md) in %s", strings.Join(args, ", "))
	}
	return files, nil
}

// printVerdict prints the problems of one definition, PATH:LINE: MESSAGE, and its warnings below, or one JSON object with
// --json. A definition without problems prints nothing but its JSON object.
func printVerdict(env *command.Env, file string, d definition.Definition, problems []definition.Problem) error {
	if env.JSON {
		return env.PrintLine(definitionJSON{Path: file, Name: d.Name, OK: len(problems) == 0,
			Problems: append([]definition.Problem{}, problems...), Warnings: d.Warnings})
	}
	for _, w := range d.Warnings {
		w.Reason = "warning: " + w.Reason
		problems = append(problems, w)
	}
	for _, p := range problems {
		if _, err := fmt.Fprintln(env.Out, terminal.Printable(p.Error())); err != nil {
			return err
		}
	}
	return nil
}
