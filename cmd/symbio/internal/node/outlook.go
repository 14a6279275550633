package node

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"

	"symbio/actor"
	"symbio/agent"
	"symbio/agent/tool"
	"symbio/agent/tool/builtin"
	"symbio/agent/tool/mcp"
	"symbio/agent/tool/peerskill"
	"symbio/cmd/symbio/internal/config"
	"symbio/community"
	"symbio/security/permission"
	"symbio/security/sandbox"
	"symbio/security/standing"
	"symbio/skills"
)

// Outlook is what agents of a node with some options would have, where no node runs. It is for looking, and for calling
// tools that need no agent. MCP servers start when something needs them, and end with it.
type Outlook struct {
	Agents map[string]agent.Definition
	// Problems are what is wrong with the definitions that are not among Agents; see Options.Definitions.
	Problems error
	// Catalog are the skills; nil = they are switched off.
	Catalog *skills.Catalog
	// MCP is what talks to the MCP servers.
	MCP *mcp.Manager
	// Report gets what happens in calls of tools; set before the first. It must not block. Default: nobody.
	Report func(agent.Event)

	node   *Node
	free   map[string]bool // tools that belong to no agent
	stop   context.CancelFunc
	served sync.WaitGroup
}

// Outlook prepares one. It has to be closed.
func (o Options) Outlook(ctx context.Context) (_ *Outlook, err error) {
	n := &Node{opts: o, name: "outlook", log: slog.New(slog.DiscardHandler), events: NewEvents("outlook")}
	n.boxes = newBoxes(o, n.name, func(sandbox.Status) {})
	out := &Outlook{node: n, free: map[string]bool{}, stop: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, out.Close())
		}
	}()
	if n.policy, err = o.Config.Permissions.Policy(); err != nil {
		return nil, err
	}
	if n.policy, err = forPeople(n.policy); err != nil {
		return nil, err
	}
	if out.Agents, out.Problems = o.Definitions(Known(nil)); out.Problems != nil && len(out.Agents) == 0 {
		return nil, out.Problems
	}
	if n.files, err = builtin.Open(o.Workspace(), o.Config.Directories...); err != nil {
		return nil, err
	}
	if o.Config.Skills.Enabled {
		n.system = actor.NewSystem(actor.Config{})
		if n.skills, err = skills.NewRegistry(n.system, SkillsConfig(o)); err != nil {
			return nil, err
		}
		out.Catalog = &n.skills.Now().Catalog
	}
	tools, err := n.tools()
	if err != nil {
		return nil, err
	}
	if err := n.openMCP(); err != nil {
		return nil, err
	}
	for _, t := range tools {
		out.free[t.Spec().Name] = true
	}
	delete(out.free, peerskill.Tool(nil).Spec().Name) // it asks other nodes
	out.MCP = n.mcp
	n.factory = agent.NewFactory(agent.Config{
		Skills: n.skills, SkillUse: n.skillUse(), Tools: tools, SearchAbove: math.MaxInt, More: out.more, Dir: n.files.Dir(), Granted: out.Granted, // all of them are to be seen
		Report: func(e agent.Event) {
			if out.Report != nil {
				out.Report(e)
			}
		},
	})
	ctx, out.stop = context.WithCancel(ctx)
	out.served.Go(func() { _ = n.mcp.Run(ctx) }) // it has no errors but those of its servers
	return out, nil
}

// Close ends what was started for it.
func (o *Outlook) Close() error {
	o.stop()
	o.served.Wait()
	var err error
	if o.node.system != nil {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		err = o.node.system.Shutdown(ctx)
	}
	if o.node.files != nil {
		err = errors.Join(err, o.node.files.Close())
	}
	return err
}

// serversKey marks a context in which the MCP servers may be started.
type serversKey struct{}

// WithServers is a context in which an Outlook starts the MCP servers to see their tools.
func WithServers(ctx context.Context) context.Context {
	return context.WithValue(ctx, serversKey{}, true)
}

func (o *Outlook) more(ctx context.Context) []tool.Tool {
	if ctx.Value(serversKey{}) == nil {
		return nil
	}
	all := o.MCP.Tools(ctx)
	for _, t := range all {
		o.free[t.Spec().Name] = true
	}
	return all
}

// Granted is what a person has allowed for good, on the node that would be started here.
func (o *Outlook) Granted() []permission.Granted {
	book, err := standing.Open(o.node.opts.State.Standing(o.node.opts.NodeName()))
	if err != nil {
		return nil
	}
	return book.Granted(o.node.policy.Digest(), o.node.files.Dir())
}

// Agent is what an agent of a definition would have, with these rules allowed beside the configuration's. ask puts
// decisions to a person, nil = there is nobody.
func (o *Outlook) Agent(ctx context.Context, d agent.Definition, allow []permission.Rule, ask func(context.Context, agent.Asked) tool.Answer) (agent.Outlook, error) {
	policy := o.node.policy
	policy.Allow = slices.Concat(policy.Allow, allow)
	return o.node.factory.Outlook(ctx, agent.Order{Definition: d, Policy: policy, Limits: o.node.opts.Config.Budget, Ask: ask})
}

// Free says whether a tool belongs to no agent in particular, and can be called without one.
func (o *Outlook) Free(name string) bool { return o.free[name] }

// Sandbox is what commands of the agents of a definition may do, and whether nothing holds them.
func (o *Outlook) Sandbox(d agent.Definition) (p sandbox.Policy, off bool, err error) {
	s := o.node.opts.Config.Sandbox
	if p, err = s.Policy(o.node.files.Dir(), o.node.opts.Home); err != nil {
		return p, false, err
	}
	p, err = d.Sandbox.Narrow(p, o.node.files.Dir())
	return p, s.Off() && d.Sandbox.IsZero(), err
}

// Definition finds one by its name; "" is general.
func (o *Outlook) Definition(name string) (agent.Definition, error) {
	d, err := FindDefinition(o.Agents, name)
	if err != nil && o.Problems != nil {
		return d, community.Explain(community.ErrNotFound, err.Error()+"; of those that cannot be used, symbio agents validate says why")
	}
	return d, err
}

// UnknownAgents says of each capability of the configuration that no agent answers, that it does not.
func (o Options) UnknownAgents(all map[string]agent.Definition) (wrong []error) {
	for _, c := range o.Config.Capabilities {
		if err := o.checkAgent(c, all); err != nil {
			wrong = append(wrong, err)
		}
	}
	return wrong
}

func (o Options) checkAgent(c config.Capability, all map[string]agent.Definition) error {
	if c.Agent == "" {
		return nil
	}
	if _, err := FindDefinition(all, c.Agent); err != nil {
		return errors.New("capability " + c.Name + ": " + err.Error())
	}
	return nil
}
