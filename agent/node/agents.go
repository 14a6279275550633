package node

import (
	"context"
	"io"
	"path/filepath"

	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/event"
	"symbio/agent/tool"
	"symbio/agent/tool/mcp"
	"symbio/community"
	"symbio/internal/agent/node/exec"
	"symbio/internal/agent/node/mcpservers"
	"symbio/internal/agent/node/models"
	"symbio/internal/agent/node/places"
	"symbio/internal/agent/node/skillset"
	"symbio/internal/agent/node/tasks"
	"symbio/internal/agent/node/tools"
)

// agents are the parts that the agents of a node are made with.
type agents struct {
	defined definition.Set
	runner  *exec.Runner
	files   io.Closer // the workspace
	servers *mcpservers.Servers
	models  *models.Models
	places  *places.Places
	factory *agent.Factory
	spawner *tasks.Spawner
}

// openAgents makes the tools, the MCP servers, the models, the places, and the factory of
// agents, which uses them all. With an error it returns the parts that are open so far.
func openAgents(n *Node, self community.Member, defined definition.Set, calls *calls, skills *skillset.Skills, report *reporter) (a *agents, err error) {
	a = &agents{defined: defined}
	c := n.cfg
	hooks := exec.Config{Denied: n.rules.Denied, Report: report.sandbox, Disarmed: report.disarmed, Artifacts: calls.artifacts}
	var onAsk func(context.Context, agent.ApprovalRequest) func(tool.Answer)
	if n.telemetry != nil {
		hooks.OnRun, onAsk = n.telemetry.Run, n.telemetry.Asked
	}
	a.runner = c.runner(n.name, hooks)
	var more []tool.Tool
	have := c.AgentTools(a.runner)
	have.Skills, have.Fetch = skills.Registry, skills.Fetch
	if more, a.files, err = tools.Open(have); err != nil {
		return a, err
	}
	servers := c.Servers(a.runner)
	servers.Report = report.mcp
	servers.Warn = func(capability, why string) {
		n.events.Publish(event.Event{Type: event.TypeWarning, Why: why, Part: event.Warning{Capability: capability}})
	}
	if a.servers, err = mcpservers.Open(servers); err != nil {
		return a, err
	}
	known := c.RuleTools()
	known.Servers = []string{}
	for _, s := range a.servers.Status() {
		known.Servers = append(known.Servers, mcp.ServerPart(s.Server.Name))
	}
	report.unmatched(c.Settings.Permissions.UnknownTools(known))
	a.models = models.New(models.Config{
		Settings: c.Settings, Getenv: c.Getenv, Community: calls.community, Funcs: c.Models, Record: c.Record, Replay: c.Replay, Logger: c.Logger,
	})
	if a.places, err = places.Open(places.Config{Self: self, Settings: c.Settings, Kept: n.kept, Community: calls.community, Events: n.events,
		Definition: a.defined.Find, Drain: &n.drain, Logger: c.Logger}); err != nil {
		return a, err
	}
	policy, _ := c.Settings.Sandbox.Policy(c.Workspace(), c.Home) // tools.Open has reported the error
	use := c.Skills().Use()
	use.Uses, use.Trust = n.sessions.SkillUses(), c.Skills().Trust
	a.factory = agent.NewFactory(agent.Config{
		Community: calls.community, Chooser: places.AgentChooser{Chooser: a.places.Chooser}, Workspaces: have.Workspaces(a.places.Workspaces),
		Skills: skills.Registry, SkillUse: use, Approvals: n.rules,
		WorkContext: agent.WorkContext{
			Files: c.Settings.Context.Files, UserDir: c.configDir(), Environment: c.Settings.Context.Environment, Sandbox: policy,
			SandboxOff: c.Settings.Sandbox.IsOff(), Level: a.runner.Level,
		},
		Programs: have.Programs(filepath.Join(filepath.Dir(n.kept.Sessions()), "guests"), c.Logger),
		Tools:    more, Middleware: c.Middleware, Window: models.Providers(c.Settings, c.Getenv, c.Models).Window, DynamicTools: a.servers.Tools,
		Definition: a.defined.Find, Model: a.models.Open, Effort: c.Settings.Effort, Dir: c.Workspace(), Report: n.events.Publish,
		Record: calls.recordDecision, Journal: n.sessions.Journal, Artifacts: agent.Artifacts{Store: calls.artifacts.Store(),
			Give: calls.artifacts.Give, Fetch: calls.artifacts.Fetch}, OnResume: calls.approvals.Withdraw, OnAsk: onAsk, Logger: c.Logger,
	})
	a.spawner = &tasks.Spawner{Factory: a.factory, Community: calls.community, Definitions: a.defined, Rules: n.rules.Policy,
		Limits: c.Settings.Budget, Logger: c.Logger}
	if c.Settings.Approvals.Unattended {
		a.spawner.Ask = calls.approvals.Ask
	}
	return a, nil
}

// close closes what no agent uses any more.
func (a *agents) close() error {
	if a.models != nil {
		a.models.Close()
	}
	if a.files == nil {
		return nil
	}
	return a.files.Close()
}
