package agentinfo

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"io"
	"symbio/actor"
	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/event"
	"symbio/agent/node"
	"symbio/agent/tool"
	"symbio/agent/tool/mcp"
	"symbio/community"
	"symbio/internal/agent/node/mcpservers"
	"symbio/internal/agent/node/rules"
	"symbio/internal/agent/node/tools"
	"symbio/internal/agent/tool/peerskill"
	"symbio/security/permission"
	"symbio/security/sandbox"
	"symbio/skills"
)

// closeTimeout bounds the end of the registry of an Inspection.
const closeTimeout = 5 * time.Second

// Inspection shows what the agents of a node would have, without a running
// node. It is for `symbio agents` and `symbio agents tools`. MCP servers start when
// their tools are asked for, and end with Close. It is not safe for concurrent
// use.
type Inspection struct {
	Agents definition.Set
	// Problems are what is wrong with the definitions that are not among
	// Agents; see node.Config.Definitions.
	Problems error
	// Catalog are the skills; nil = they are switched off.
	Catalog *skills.Catalog
	// MCP is what talks to the MCP servers.
	MCP *mcp.Manager
	// Report gets what happens in calls of tools; set before the first. It must
	// not block. Default: not reported.
	Report func(event.Event)

	cfg     node.Config
	rules   *rules.Rules
	files   io.Closer
	system  *actor.System // nil = no skills
	servers *mcpservers.Servers
	factory *agent.Factory
	free    map[string]bool // tools that belong to no agent
}

// Inspect returns an Inspection of the node of a configuration. The caller must close it. Broken definitions
// are in Problems, unless no definition works.
func Inspect(ctx context.Context, c node.Config) (_ *Inspection, err error) {
	if c, err = c.WithDefaults(); err != nil {
		return nil, err
	}
	out := &Inspection{cfg: c, free: map[string]bool{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, out.Close())
		}
	}()
	if out.Agents, out.Problems = c.Definitions(node.Known(nil)); out.Problems != nil && len(out.Agents) == 0 {
		return nil, out.Problems
	}
	settings := rules.Config{Start: c.Settings, Dir: c.Workspace(), Tools: c.RuleTools(), Standing: c.State.Node(c.NodeName()).Standing(),
		Events: event.NewStream("inspection"), Logger: c.Logger}
	if out.rules, err = rules.New(settings); err != nil {
		settings.Standing = "" // an unreadable file of lasting approvals approves nothing
		if out.rules, err = rules.New(settings); err != nil {
			return nil, err
		}
	}
	var registry *skills.Registry
	if c.Settings.Skills.Enabled {
		out.system = actor.NewSystem(actor.Config{})
		if registry, err = skills.NewRegistry(out.system, c.Skills().Registry()); err != nil {
			return nil, err
		}
		out.Catalog = &registry.Now().Catalog
	}
	runner := c.ConfiguredRunner("inspection")
	have := c.AgentTools(runner)
	have.Skills = registry
	var more []tool.Tool
	if more, out.files, err = tools.Open(have); err != nil {
		return nil, err
	}
	for _, t := range more {
		out.free[t.Spec().Name] = t.Spec().Name != peerskill.Tool(nil).Spec().Name // that tool needs other nodes
	}
	if out.servers, err = mcpservers.Open(c.Servers(runner)); err != nil {
		return nil, err
	}
	out.MCP = out.servers.Manager
	out.factory = agent.NewFactory(agent.Config{
		// all of them are to be seen
		Skills: registry, SkillUse: c.Skills().Use(), Tools: more, SearchAbove: math.MaxInt, DynamicTools: out.more, Dir: c.Workspace(),
		Approvals: out.rules,
		Report: func(e event.Event) {
			if out.Report != nil {
				out.Report(e)
			}
		},
	})
	out.servers.Open()
	return out, nil
}

// Close stops the servers and the registry, within closeTimeout.
func (i *Inspection) Close() error {
	if i.servers != nil {
		i.servers.Close()
	}
	var err error
	if i.system != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		err = i.system.Shutdown(ctx)
	}
	if i.files != nil {
		err = errors.Join(err, i.files.Close())
	}
	return err
}

// serversKey marks a context in which MCP servers may be started. They are
// programs of other people, so a mere look at a definition does not start them.
type serversKey struct{}

// WithServers returns a context in which an Inspection starts the MCP servers
// to list their tools.
func WithServers(ctx context.Context) context.Context {
	return context.WithValue(ctx, serversKey{}, true)
}

// more returns the tools of the MCP servers that are ready.
func (i *Inspection) more(ctx context.Context, _ bool) ([]tool.Tool, map[string]string) {
	if ctx.Value(serversKey{}) == nil {
		return nil, nil
	}
	all, _ := i.MCP.AllTools(ctx) // of those that are ready
	for _, t := range all {
		i.free[t.Spec().Name] = true
	}
	return all, nil
}

// ParseAllow reads a rule that a person adds to the rules of the configuration; see rules.Rules.ParseAllow.
func (i *Inspection) ParseAllow(text string) (permission.Rule, error) {
	return i.rules.ParseAllow(text)
}

// Granted returns the lasting approvals of the node that would be started here.
func (i *Inspection) Granted() []permission.Grant { return i.rules.Granted("") }

// Agent returns what an agent of a definition would have. The rules in allow
// are added to the rules of the configuration. ask asks a person about calls; nil
// means that those calls are denied.
func (i *Inspection) Agent(ctx context.Context, d definition.Definition, allow []permission.Rule,
	ask func(context.Context, agent.ApprovalRequest) tool.Answer) (agent.Preview, error) {
	policy := i.rules.Policy()
	policy.Allow = slices.Concat(policy.Allow, allow)
	return i.factory.Preview(ctx, agent.Order{Definition: d, Policy: policy, Limits: i.cfg.Settings.Budget, Ask: ask})
}

// Free reports whether a tool can be called without an agent.
func (i *Inspection) Free(name string) bool { return i.free[name] }

// Sandbox returns what the commands of an agent of this definition may do. off
// reports that there is no sandbox at all.
func (i *Inspection) Sandbox(d definition.Definition) (p sandbox.Policy, off bool, err error) {
	s := i.cfg.Settings.Sandbox
	if p, err = s.Policy(i.cfg.Workspace(), i.cfg.Home); err != nil {
		return p, false, err
	}
	p, err = d.Sandbox.Constrain(p, i.cfg.Workspace())
	return p, s.IsOff() && d.Sandbox.IsZero(), err
}

// Definition returns the definition with this name; "" is general. The error is
// community.ErrNotFound; it mentions broken definitions if there are any.
func (i *Inspection) Definition(name string) (definition.Definition, error) {
	d, err := i.Agents.Find(name)
	if err != nil && i.Problems != nil {
		return d, community.Explain(community.ErrNotFound, err.Error()+"; of those that cannot be used, symbio agents validate says why")
	}
	return d, err
}
