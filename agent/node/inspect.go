package node

import (
	"context"
	"errors"
	"math"
	"slices"

	"symbio/actor"
	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/event"
	"symbio/agent/node/mcpservers"
	"symbio/agent/node/rules"
	"symbio/agent/tool"
	"symbio/agent/tool/builtin"
	"symbio/agent/tool/mcp"
	"symbio/agent/tool/peerskill"
	"symbio/community"
	"symbio/security/permission"
	"symbio/security/sandbox"
	"symbio/skills"
)

// Inspection is what the agents of a node would have, where no node runs. It is for looking, and for calling tools that need no
// agent. MCP servers start when something needs them, and end with it.
type Inspection struct {
	Agents map[string]definition.Definition
	// Problems are what is wrong with the definitions that are not among Agents; see Config.Definitions.
	Problems error
	// Catalog are the skills; nil = they are switched off.
	Catalog *skills.Catalog
	// MCP is what talks to the MCP servers.
	MCP *mcp.Manager
	// Report gets what happens in calls of tools; set before the first. It must not block. Default: not reported.
	Report func(agent.Event)

	cfg     Config
	rules   *rules.Rules
	files   *builtin.Workspace
	system  *actor.System // nil = no skills
	servers *mcpservers.Servers
	factory *agent.Factory
	free    map[string]bool // tools that belong to no agent
}

// Inspect prepares an Inspection, which has to be closed.
func (c Config) Inspect(ctx context.Context) (_ *Inspection, err error) {
	if c, err = c.WithDefaults(); err != nil {
		return nil, err
	}
	out := &Inspection{cfg: c, free: map[string]bool{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, out.Close())
		}
	}()
	if out.Agents, out.Problems = c.Definitions(Known(nil)); out.Problems != nil && len(out.Agents) == 0 {
		return nil, out.Problems
	}
	settings := rules.Config{Start: c.Settings, Dir: c.Workspace(), Standing: c.State.Node(c.NodeName()).Standing(), Events: event.NewStream("inspection"), Logger: c.Logger}
	if out.rules, err = rules.New(settings); err != nil {
		settings.Standing = "" // what was allowed for good and cannot be read allows nothing
		if out.rules, err = rules.New(settings); err != nil {
			return nil, err
		}
	}
	var registry *skills.Registry
	if c.Settings.Skills.Enabled {
		out.system = actor.NewSystem(actor.Config{})
		if registry, err = skills.NewRegistry(out.system, c.SkillsConfig()); err != nil {
			return nil, err
		}
		out.Catalog = &registry.Now().Catalog
	}
	runner := c.configuredRunner("inspection")
	var tools []tool.Tool
	if out.files, tools, err = c.openWorkspace(runner, registry, nil); err != nil {
		return nil, err
	}
	for _, t := range tools {
		out.free[t.Spec().Name] = t.Spec().Name != peerskill.Tool(nil).Spec().Name // that one asks other nodes
	}
	if out.servers, err = mcpservers.Open(c.servers(runner)); err != nil {
		return nil, err
	}
	out.MCP = out.servers.Manager
	out.factory = agent.NewFactory(agent.Config{
		Skills: registry, SkillUse: c.skillUse(), Tools: tools, SearchAbove: math.MaxInt, DynamicTools: out.more, Dir: c.Workspace(), Granted: out.rules.Granted, // all of them are to be seen
		Report: func(e agent.Event) {
			if out.Report != nil {
				out.Report(e)
			}
		},
	})
	out.servers.Open()
	return out, nil
}

// Close ends what was started for it.
func (i *Inspection) Close() error {
	if i.servers != nil {
		i.servers.Close()
	}
	var err error
	if i.system != nil {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		err = i.system.Shutdown(ctx)
	}
	if i.files != nil {
		err = errors.Join(err, i.files.Close())
	}
	return err
}

// serversKey marks a context in which the MCP servers may be started.
type serversKey struct{}

// WithServers is a context in which an Inspection starts the MCP servers to see their tools.
func WithServers(ctx context.Context) context.Context {
	return context.WithValue(ctx, serversKey{}, true)
}

func (i *Inspection) more(ctx context.Context) []tool.Tool {
	if ctx.Value(serversKey{}) == nil {
		return nil
	}
	all, _ := i.MCP.AllTools(ctx) // of those that are ready
	for _, t := range all {
		i.free[t.Spec().Name] = true
	}
	return all
}

// Granted is what a person has allowed for good, on the node that would be started here.
func (i *Inspection) Granted() []permission.Granted { return i.rules.Granted() }

// Agent is what an agent of a definition would have, with these rules allowed beside the configuration's. ask puts
// decisions to a person, nil = there is none.
func (i *Inspection) Agent(ctx context.Context, d definition.Definition, allow []permission.Rule, ask func(context.Context, agent.ApprovalRequest) tool.Answer) (agent.Preview, error) {
	policy := i.rules.Policy()
	policy.Allow = slices.Concat(policy.Allow, allow)
	return i.factory.Preview(ctx, agent.Order{Definition: d, Policy: policy, Limits: i.cfg.Settings.Budget, Ask: ask})
}

// Free says whether a tool belongs to no agent in particular, and can be called without one.
func (i *Inspection) Free(name string) bool { return i.free[name] }

// Sandbox is what commands of the agents of a definition may do, and whether nothing holds them.
func (i *Inspection) Sandbox(d definition.Definition) (p sandbox.Policy, off bool, err error) {
	s := i.cfg.Settings.Sandbox
	if p, err = s.Policy(i.cfg.Workspace(), i.cfg.Home); err != nil {
		return p, false, err
	}
	p, err = d.Sandbox.Constrain(p, i.cfg.Workspace())
	return p, s.IsOff() && d.Sandbox.IsZero(), err
}

// Definition finds a definition by its name; "" is general.
func (i *Inspection) Definition(name string) (definition.Definition, error) {
	d, err := FindDefinition(i.Agents, name)
	if err != nil && i.Problems != nil {
		return d, community.Explain(community.ErrNotFound, err.Error()+"; of those that cannot be used, symbio agents validate says why")
	}
	return d, err
}
