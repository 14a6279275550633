package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"symbio/agent"
	"symbio/cmd/symbio/internal/node"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

func (a *App) cmdAgentsShow() *cobra.Command {
	var file string
	var servers bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "What an agent of a definition would have",
		Long: `Show what an agent of a definition would have on a node started here: its tools, the rules that it is held to
and where each stands, its limits, model, skills and sandbox. A call has to be allowed by each block of rules, and the
strictest says. With --mcp the MCP servers are started, to show their tools; they end with this command.`,
		Example: `  symbio agents show reviewer
  symbio agents show reviewer --json`,
		Args:              exactArgs(1),
		ValidArgsFunction: a.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := a.agentOptions(file)
			if err != nil {
				return err
			}
			return a.withOutlook(cmd.Context(), opts, func(o *node.Outlook) error {
				ctx := cmd.Context()
				if servers {
					ctx = node.WithServers(ctx)
				}
				shown, err := lookAt(ctx, o, opts, args[0])
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(shown)
				}
				return a.printText(shown.text())
			})
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration file")
	cmd.Flags().BoolVar(&servers, "mcp", false, "start the MCP servers, to show their tools")
	return cmd
}

// shownAgent is what an agent of a definition would have; the names are a contract.
type shownAgent struct {
	agentJSON
	ModelInForce string     `json:"model_in_force"`
	MaxTurns     int        `json:"max_turns"`
	Thinking     int        `json:"thinking"` // tokens; 0 = as the model is set up, below 0 = none
	Has          []string   `json:"has"`      // tools that are there
	HasNot       []string   `json:"has_not"`  // tools that it names, and that are not there
	MCPServers   []string   `json:"mcp_servers"`
	SkillsNot    []string   `json:"skills_not_found"`
	Limits       limitsJSON `json:"limits"`
	Rules        []linkJSON `json:"rules"`
	Sandbox      heldJSON   `json:"sandbox"`
}

// limitsJSON are what it and its descendants may use together.
type limitsJSON struct {
	Depth           int     `json:"depth"`
	Agents          int     `json:"agents"`
	SpawnsPerMinute int     `json:"spawns_per_minute"`
	Wall            float64 `json:"wall_seconds"`
	ModelCalls      int     `json:"model_calls"`
	Tokens          int64   `json:"tokens"`
	Cost            float64 `json:"cost"` // 0 = no limit
}

func limitsOf(l agent.Limits) limitsJSON {
	return limitsJSON{l.Depth, l.Agents, l.SpawnsPerMinute, l.Wall.Seconds(), l.ModelCalls, l.Tokens, l.Cost}
}

// linkJSON are rules that have to allow a call.
type linkJSON struct {
	Of      string     `json:"of"`
	Default string     `json:"default"` // of calls that no rule speaks of; "" = it says nothing of them
	Rules   []ruleJSON `json:"rules"`
}

type ruleJSON struct {
	List string `json:"list"`
	Rule string `json:"rule"`
	At   string `json:"at"` // FILE:LINE:COLUMN, "preset NAME", or who granted it
}

// heldJSON is what commands may do.
type heldJSON struct {
	Off        bool     `json:"off"`
	Network    string   `json:"network"`
	Read       []string `json:"read"`
	Write      []string `json:"write"`
	Env        []string `json:"env"`
	Show       []string `json:"show"`
	Subprocess bool     `json:"subprocess"`
	CPU        float64  `json:"cpu_seconds"`
	FileSize   int64    `json:"file_size"`
	OpenFiles  int      `json:"open_files"`
	Processes  int      `json:"processes"`
	Memory     int64    `json:"memory"`
}

func lookAt(ctx context.Context, o *node.Outlook, opts node.Options, name string) (*shownAgent, error) {
	d, err := o.Definition(name)
	if err != nil {
		return nil, notFound(err)
	}
	has, err := o.Agent(ctx, d, nil, nil)
	if err != nil {
		return nil, err
	}
	held, off, err := o.Sandbox(d)
	if err != nil {
		return nil, err
	}
	s := &shownAgent{
		agentJSON: agentOf(d, opts.OfferedBy()), ModelInForce: cmp.Or(d.Model, string(opts.Config.Model)), MaxTurns: d.MaxTurns, Thinking: d.Thinking,
		Has: has.Tools.Names(), HasNot: []string{}, MCPServers: []string{}, SkillsNot: []string{}, Limits: limitsOf(has.Limits), Sandbox: heldOf(held, off),
	}
	for _, name := range d.ToolNames() {
		if !slices.Contains(s.Has, name) && !strings.HasPrefix(name, "mcp__") {
			s.HasNot = append(s.HasNot, name)
		}
	}
	for _, server := range o.MCP.Status() {
		if d.MayHave(prefixOf(server.Server)) {
			s.MCPServers = append(s.MCPServers, prefixOf(server.Server)+"*")
		}
	}
	for _, skill := range d.Skills {
		if o.Catalog == nil || !o.Catalog.Contains(skill) {
			s.SkillsNot = append(s.SkillsNot, skill)
		}
	}
	s.Rules = linksOf(has, o.Granted(), d)
	return s, nil
}

// linksOf are the rules in force: the node's and the definition's.
func linksOf(has agent.Outlook, granted []permission.Granted, d agent.Definition) (all []linkJSON) {
	for i, l := range has.Links {
		link := linkJSON{Of: "the node", Default: l.Policy.Default.String(), Rules: []ruleJSON{}}
		if i > 0 {
			link.Of = "the definition"
		}
		for _, r := range l.Policy.Rules() {
			link.Rules = append(link.Rules, ruleJSON{r.List, r.Rule.String(), cmp.Or(r.At, "built in")})
		}
		if i == 0 {
			for _, g := range granted {
				link.Rules = append(link.Rules, ruleJSON{"allow", cmp.Or(g.Rule.String(), "exactly one call"), g.Source})
			}
		}
		all = append(all, link)
	}
	if g := has.Guardrail; g != nil {
		link := linkJSON{Of: "the definition's guardrail", Rules: []ruleJSON{}}
		if g.Decides {
			link.Default = g.Default.String()
		}
		for _, list := range []struct {
			name  string
			rules []permission.Rule
		}{{"final_deny", g.FinalDeny}, {"override", g.Override}, {"deny", g.Deny}, {"ask", g.Ask}, {"allow", g.Allow}} {
			for _, r := range list.rules {
				link.Rules = append(link.Rules, ruleJSON{list.name, r.String(), cmp.Or(d.Guardrail.At(list.name, r.String()), "preset "+d.Guardrail.Preset)})
			}
		}
		all = append(all, link)
	}
	return all
}

func heldOf(p sandbox.Policy, off bool) heldJSON {
	some := func(list []string) []string { return append([]string{}, list...) }
	l := p.Limits
	return heldJSON{
		Off: off, Network: p.Network.String(), Read: some(p.Files.Read), Write: some(p.Files.Write), Env: some(p.Env), Show: some(p.Files.Show), Subprocess: p.Subprocess,
		CPU: l.CPU.Seconds(), FileSize: l.FileSize, OpenFiles: l.OpenFiles, Processes: l.Processes, Memory: l.Memory,
	}
}

// text is what a person reads: a line for each thing, and the rules below.
func (s *shownAgent) text() string {
	var b strings.Builder
	line := func(key, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-13s %s\n", key, printable(value))
		}
	}
	list := func(all []string) string { return strings.Join(all, ", ") }
	line("name", s.Name)
	line("description", s.Description)
	line("file", cmp.Or(s.Path, "built in"))
	line("model", s.ModelInForce+map[bool]string{true: " (the node's)"}[s.Model == ""])
	line("thinking", thinkingText(s.Thinking))
	line("accepts", list(s.Accepts))
	line("capabilities", list(s.Capabilities))
	line("tools", cmp.Or(list(s.Has), "none"))
	line("not here", list(s.HasNot))
	line("mcp", list(s.MCPServers))
	line("skills", list(s.Skills))
	line("not found", list(s.SkillsNot))
	line("turns", strconv.Itoa(s.MaxTurns)+" for a task")
	line("limits", limitsText(s.Limits))
	line("sandbox", s.Sandbox.text())
	for _, l := range s.Rules {
		fmt.Fprintf(&b, "\nrules of %s", l.Of)
		if l.Default != "" {
			fmt.Fprintf(&b, "; what none speaks of: %s", l.Default)
		}
		b.WriteString("\n")
		for _, r := range l.Rules {
			fmt.Fprintf(&b, "  %-11s %s  (%s)\n", r.List, printable(r.Rule), printable(r.At))
		}
	}
	return b.String()
}

func thinkingText(tokens int) string {
	switch {
	case tokens < 0:
		return "none"
	case tokens > 0:
		return strconv.Itoa(tokens) + " tokens"
	}
	return ""
}

func limitsText(l limitsJSON) string {
	text := fmt.Sprintf("%d sub-agents, %d deep, %d a minute; for a task %s, %d calls of models, %d tokens", l.Agents, l.Depth, l.SpawnsPerMinute, time.Duration(l.Wall*float64(time.Second)), l.ModelCalls, l.Tokens)
	if l.Cost > 0 {
		text += fmt.Sprintf(", cost %g", l.Cost)
	}
	return text
}

func (h heldJSON) text() string {
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
	return text + fmt.Sprintf("; %gs of CPU, files of %s, memory %s", h.CPU, bytesText(h.FileSize), bytesText(h.Memory))
}

func bytesText(n int64) string {
	for _, unit := range []struct {
		name string
		of   int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= unit.of {
			return fmt.Sprintf("%.4g %s", float64(n)/float64(unit.of), unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
