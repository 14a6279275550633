// Package agentinfo describes what an agent of a definition would have on a
// node: its tools, rules, budget and sandbox. It is the output of `symbio
// agents`. The names of the fields in JSON are a contract with scripts.
package agentinfo

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"symbio/agent"
	"symbio/agent/budget"
	"symbio/agent/definition"
	"symbio/agent/node"
	"symbio/agent/tool/mcp"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

// Summary is a definition as it is written.
type Summary struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Model is the specification of the model; "" = the model of the node.
	Model   string   `json:"model"`
	Accepts []string `json:"accepts"`
	// Tools are the names as they are written; ["*"] = all tools.
	Tools  []string `json:"tools"`
	Skills []string `json:"skills"`
	// Capabilities are the configured capabilities that agents of this definition answer.
	Capabilities []string `json:"capabilities"`
	// Path is the file of the definition; "" = it is built in.
	Path string `json:"path"`
	// Warnings say what is read otherwise than its author may think.
	Warnings []definition.Problem `json:"warnings,omitempty"`
}

// Summarize returns the summary of d. offered has the capabilities that agents
// answer, by the name of the definition.
func Summarize(d definition.Definition, offered map[string][]string) Summary {
	tools := d.Tools
	if tools == nil {
		tools = []string{"*"}
	}
	return Summary{
		Name: d.Name, Description: d.Description, Model: d.Model, Accepts: d.Accepts, Tools: tools,
		Skills: append([]string{}, d.Skills...), Capabilities: append([]string{}, offered[d.Name]...), Path: d.File, Warnings: d.Warnings,
	}
}

// Agent is what an agent of a definition would have on this node. Empty lists
// are [], never null, for the sake of scripts.
type Agent struct {
	Summary
	// ModelInForce is Model, or the model of the node if Model is empty.
	ModelInForce string `json:"model_in_force"`
	MaxTurns     int    `json:"max_turns"`
	// Thinking is the budget of thinking tokens; 0 = the default of the model, negative = no
	// thinking.
	Thinking int `json:"thinking"`
	// Effort is how much the model thinks; "" = the default of the model.
	Effort string `json:"effort,omitempty"`
	// Temperature is how much chance there is in its answers; nil = the default of the model.
	Temperature *float64 `json:"temperature,omitempty"`
	// Placement is where its sub-agents run; "" = as the node's configuration says. Repeatable is
	// whether a lost task is started anew.
	Placement  string `json:"placement,omitempty"`
	Repeatable bool   `json:"repeatable,omitempty"`
	// Has are the tools that exist here.
	Has []string `json:"has"`
	// HasNot are the tools that the definition names and that do not exist here.
	HasNot []string `json:"has_not"`
	// MCPServers are the patterns of the tools of the permitted MCP servers, such as mcp__files__*.
	MCPServers []string `json:"mcp_servers"`
	SkillsNot  []string `json:"skills_not_found"`
	Limits     Limits   `json:"limits"`
	Rules      []Link   `json:"rules"`
	Sandbox    Sandbox  `json:"sandbox"`
}

// Limits is the budget of the agent together with its descendants.
type Limits struct {
	Depth           int `json:"depth"`
	Agents          int `json:"agents"`
	SpawnsPerMinute int `json:"spawns_per_minute"`
	// Wall is in seconds, because durations have no standard form in JSON.
	Wall       float64 `json:"wall_seconds"`
	ModelCalls int     `json:"model_calls"`
	Tokens     int64   `json:"tokens"`
	// Cost is in the currency of the price table; 0 = no limit.
	Cost float64 `json:"cost"`
}

// limitsOf converts a budget.
func limitsOf(l budget.Limits) Limits {
	return Limits{l.Depth, l.Agents, l.SpawnsPerMinute, l.Wall.Seconds(), l.ModelCalls, l.Tokens, l.Cost}
}

// Link is a set of rules. Every link must allow a call.
type Link struct {
	Of string `json:"of"`
	// Default applies to calls that match no rule; "" = the link has no default.
	Default string `json:"default"`
	Rules   []Rule `json:"rules"`
}

// Rule is one rule and the place where it is written.
type Rule struct {
	// List is the list that has the rule, such as deny or allow.
	List string `json:"list"`
	Rule string `json:"rule"`
	// At is FILE:LINE:COLUMN, "preset NAME", "built in", or the source of a lasting approval.
	At string `json:"at"`
}

// Sandbox is what commands of the agent may do. Sizes are in bytes; 0 is no
// limit.
type Sandbox struct {
	Off        bool     `json:"off"`
	Network    string   `json:"network"`
	Read       []string `json:"read"`
	Write      []string `json:"write"`
	Env        []string `json:"env"`
	Show       []string `json:"show"`
	Sockets    []string `json:"sockets"`
	Subprocess bool     `json:"subprocess"`
	// CPU is processor time in seconds.
	CPU       float64 `json:"cpu_seconds"`
	FileSize  int64   `json:"file_size"`
	OpenFiles int     `json:"open_files"`
	Processes int     `json:"processes"`
	Memory    int64   `json:"memory"`
}

// Look returns what an agent of definition d would have on a node with the options opts. o is an
// inspection of that node; the caller closes it. Look starts MCP servers only if ctx is from
// WithServers, as the tools of a server may be unknown until it runs.
func Look(ctx context.Context, o *Inspection, opts node.Config, d definition.Definition) (*Agent, error) {
	has, err := o.Agent(ctx, d, nil, nil)
	if err != nil {
		return nil, err
	}
	held, off, err := o.Sandbox(d)
	if err != nil {
		return nil, err
	}
	s := &Agent{
		Summary: Summarize(d, opts.Settings.OfferedBy()), ModelInForce: cmp.Or(d.Model, string(opts.Settings.Model)), MaxTurns: d.MaxTurns,
		Thinking: d.Thinking, Effort: d.Effort, Temperature: d.Temperature, Placement: d.Placement, Repeatable: d.Repeatable, Has: has.Tools.Names(),
		HasNot: []string{}, MCPServers: []string{}, SkillsNot: []string{}, Limits: limitsOf(has.Limits), Sandbox: sandboxOf(held, off),
	}
	for _, name := range d.ToolNames() {
		// The tools of an MCP server that does not run may be unknown, so they are never reported
		// as missing.
		if !slices.Contains(s.Has, name) && !strings.HasPrefix(name, "mcp__") {
			s.HasNot = append(s.HasNot, name)
		}
	}
	for _, server := range o.MCP.Status() {
		if d.MayHave(mcp.ToolPrefix(server.Server.Name)) {
			s.MCPServers = append(s.MCPServers, mcp.ToolPrefix(server.Server.Name)+"*")
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

// linksOf returns the rules that apply: the node's with its lasting approvals, the ones of the
// definition, and its guardrail. The first element of has.Links is the policy of the node.
func linksOf(has agent.Preview, granted []permission.Grant, d definition.Definition) (all []Link) {
	for i, l := range has.Links {
		link := Link{Of: "the node", Default: l.Policy.Default.String(), Rules: []Rule{}}
		if i > 0 {
			link.Of = "the definition"
		}
		for _, r := range l.Policy.Rules() {
			link.Rules = append(link.Rules, Rule{r.List, r.Rule.String(), cmp.Or(r.At, "built in")})
		}
		if i == 0 {
			for _, g := range granted {
				link.Rules = append(link.Rules, Rule{"allow", cmp.Or(g.Rule.String(), "exactly one call"), g.Source})
			}
		}
		all = append(all, link)
	}
	if g := has.Guardrail; g != nil {
		link := Link{Of: "the definition's guardrail", Rules: []Rule{}}
		if g.Decides {
			link.Default = g.Default.String()
		}
		for _, list := range []struct {
			name  string
			rules []permission.Rule
		}{{"final_deny", g.FinalDeny}, {"override", g.Override}, {"deny", g.Deny}, {"ask", g.Ask}, {"allow", g.Allow}} {
			for _, r := range list.rules {
				link.Rules = append(link.Rules, Rule{list.name, r.String(), cmp.Or(d.Guardrail.At(list.name, r.String()), "preset "+d.Guardrail.Preset)})
			}
		}
		all = append(all, link)
	}
	return all
}

// sandboxOf converts a policy. some copies a list so that nil becomes [] in JSON.
func sandboxOf(p sandbox.Policy, off bool) Sandbox {
	some := func(list []string) []string { return append([]string{}, list...) }
	l := p.Limits
	return Sandbox{
		Off: off, Network: p.Network.String(), Read: some(p.Files.Read), Write: some(p.Files.Write), Env: some(p.Env),
		Show: some(p.Files.Show), Sockets: some(p.Files.Sockets), Subprocess: p.Subprocess,
		CPU: l.CPU.Seconds(), FileSize: l.FileSize, OpenFiles: l.OpenFiles, Processes: l.Processes, Memory: l.Memory,
	}
}
