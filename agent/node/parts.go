package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	grpchealth "google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"symbio/actor"
	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/event"
	"symbio/agent/node/approvals"
	"symbio/agent/node/artifacts"
	"symbio/agent/node/config"
	"symbio/agent/node/control"
	"symbio/agent/node/dashboard"
	"symbio/agent/node/exec"
	"symbio/agent/node/fleet"
	"symbio/agent/node/inbound"
	"symbio/agent/node/mcpservers"
	"symbio/agent/node/models"
	"symbio/agent/node/peers"
	"symbio/agent/node/places"
	"symbio/agent/node/sessions"
	"symbio/agent/node/skillset"
	"symbio/agent/node/steering"
	"symbio/agent/node/tasks"
	"symbio/agent/node/telemetry"
	"symbio/agent/node/tools"
	"symbio/agent/tool"
	"symbio/agent/tool/mcp"
	"symbio/community"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/audit"
	"symbio/security/permission"
)

// parts are the parts of a node under one identity.
type parts struct {
	node        *Node
	started     time.Time
	newIdentity chan struct{} // asks for a start under another identity
	report      *reporter
	peers       *peers.Peers
	calls       *calls
	skills      *skillset.Skills
	agents      *agents
	tasks       *tasks.Tasks
	resumer     *sessions.Resumer
	console     *console
}

// openParts makes all parts, each from the ones before it. It closes those that it made if a later one fails.
func openParts(n *Node) (_ *parts, err error) {
	p := &parts{node: n, started: time.Now(), newIdentity: make(chan struct{}, 1), peers: new(peers.Peers), calls: new(calls), agents: new(agents), console: new(console)}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	c := n.cfg
	p.report = &reporter{name: n.name, events: n.events, log: c.Logger, policy: n.rules.Policy}
	if p.peers, err = peers.Open(peers.Config{Name: n.name, Settings: c.Settings, State: c.State, Kept: n.kept, Report: p.report.node, Logger: c.Logger}); err != nil {
		return nil, err
	}
	// A broken definition is an error: an agent that a person relies on must
	// not be missing silently.
	defined, err := c.Definitions(Known(nil))
	if err != nil {
		return nil, fmt.Errorf("agents: %w", err)
	}
	id := p.peers.Identity.ID()
	self := community.Member{ID: community.MemberID(id), Node: id, Name: n.name, Metadata: places.Labels(c.Settings, defined)}
	p.report.id, p.report.network = id, p.peers.Network
	lent := func(to community.NodeID, m community.MemberID) bool { return p.agents.places.HasLent(to, m) }
	if p.calls, err = openCalls(n, self, p.peers, p.report, lent); err != nil {
		return nil, err
	}
	p.report.community = p.calls.community
	if p.skills, err = skillset.Open(c.Skills(), skillset.Node{
		System: p.calls.system, Community: p.calls.community, Events: n.events, Report: p.report.skill, NodeName: p.report.nodeName, MaxMessage: c.Settings.Limits.Message,
	}, defined); err != nil {
		return nil, err
	}
	if p.agents, err = openAgents(n, self, defined, p.calls, p.skills, p.report); err != nil {
		return nil, err
	}
	p.tasks = tasks.New(tasks.Config{
		Self: self, Agents: p.agents.spawner, Chooser: p.agents.places.Chooser, Rules: n.rules, Dir: c.Workspace(), NodeName: p.report.nodeName,
	})
	p.resumer = sessions.NewResumer(sessions.ResumerConfig{
		Sessions: n.sessions, Agents: p.agents.spawner, Approvals: p.calls.approvals, Model: p.agents.models.Open, Dir: c.Workspace(),
	})
	if p.console, err = openConsole(p); err != nil {
		return nil, err
	}
	return p, p.offerAll()
}

// run runs all parts until ctx ends or one of them fails, and returns when all
// goroutines have ended. The error names the part. errOtherIdentity asks the
// caller to start again with new parts.
func (p *parts) run(ctx context.Context) error {
	socket, err := p.node.kept.ListenControl()
	if err != nil {
		return err
	}
	server := p.controlServer()
	g, failed := errgroup.WithContext(ctx)
	// The tasks are cancelled after the sessions know that it is the node that ends.
	ctx, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer context.AfterFunc(failed, func() {
		p.console.health.Shutdown()
		if j := p.node.sessions.Journal; j != nil {
			j.Suspend() // what the end breaks off is not recorded as ended
		}
		stop(context.Cause(failed))
	})()
	start := func(r runner) {
		g.Go(func() error {
			if err := r.run(ctx); err != nil && ctx.Err() == nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			return nil
		})
	}
	for _, r := range p.runners() {
		start(r)
	}
	start(runner{"control", func(context.Context) error { return server.Serve(socket) }})
	start(runner{"control's end", func(ctx context.Context) error { <-ctx.Done(); stopServer(server); return nil }})
	g.Go(func() error {
		select {
		case <-p.newIdentity:
			return errOtherIdentity
		case <-ctx.Done():
			return nil
		}
	})
	p.skills.Warn()
	auto := p.resumer.Prepare(ctx)
	p.console.health.SetServingStatus("", grpc_health_v1.HealthCheckResponse_SERVING)
	select {
	case p.node.ready <- Info{p.node.name, p.peers.Identity.ID(), p.peers.Addr(), p.node.kept.Socket()}:
	default: // the one before was not read
	}
	start(runner{"resumed tasks", func(ctx context.Context) error { return p.resumer.ResumeAll(ctx, auto) }})
	return g.Wait()
}

// runner is a part that runs until ctx ends.
type runner struct {
	name string
	run  func(ctx context.Context) error
}

// runners returns the parts that run as long as the node does.
func (p *parts) runners() []runner {
	changes := p.calls.community.Subscribe()
	all := []runner{
		{"community", p.calls.community.Run},
		{"refusals", p.warnOfRefusals},
		{"mcp", p.agents.servers.Run},
		{"capabilities of mcp", func(ctx context.Context) error {
			return p.agents.servers.Offer(ctx, p.node.cfg.Settings.Capabilities, p.offer)
		}},
		{"discovery", p.peers.Discover},
		{"changes", func(ctx context.Context) error { return p.report.changes(ctx, changes) }},
		{"record of calls", p.calls.inbound.Run},
		{"checkpoints of the record", p.calls.audit.Run},
		{"addresses", p.peers.KeepAddresses},
		{"retention of sessions", p.node.sessions.Prune},
		{"artifacts", p.calls.artifacts.Run},
		{"registry of skills", p.skills.Run},
		{"resumed sessions", p.resumer.ResumeAnswered},
		{"dashboard", p.console.dashboard.Run},
		{"view of the community", p.console.fleet.Run},
	}
	if p.console.metrics != nil {
		all = append(all, runner{"metrics", p.console.metrics.Run})
	}
	return all
}

// close releases what the parts share, after run has returned. It works also when only some parts exist.
func (p *parts) close() error {
	p.peers.Close()
	p.calls.close()
	p.console.close()
	return p.agents.close()
}

// stopServer gives calls on the control socket one second to finish, then
// cancels them.
func stopServer(s *grpc.Server) {
	timer := time.AfterFunc(time.Second, s.Stop)
	defer timer.Stop()
	s.GracefulStop()
}

// warnOfRefusals reports, once, what the sandbox does not hold as the configuration's presets count on it, unless a person
// has switched it off by itself, and the capabilities whose calls will be refused
// because this machine's sandbox cannot hold their commands. Only the person
// who runs the node can change that, and callers see the refusal only.
func (p *parts) warnOfRefusals(context.Context) error {
	settings := p.node.cfg.Settings
	if why, mend := settings.Unheld(); why != "" && (!settings.Sandbox.IsOff() || settings.Permissions.Preset == "development") {
		p.node.events.Warn(why, mend)
	}
	refused, err := p.agents.runner.Refusals(settings.Capabilities, p.agents.runner.Held)
	for _, r := range refused {
		p.node.cfg.Logger.Warn("capability refuses its calls", "capability", r.Capability, "why", r.Why)
		p.node.events.Publish(event.Event{Type: event.TypeWarning, Why: "its calls are refused: " + r.Why, Part: event.Warning{Capability: r.Capability, Mend: r.Mend}})
	}
	return err
}

// calls are the community of a node, and the parts that authorize, record and approve its calls.
type calls struct {
	node      *Node
	system    *actor.System
	community *community.Community
	inbound   *inbound.Authorizer
	audit     *audit.Log
	approvals *approvals.Queue
	artifacts *artifacts.Server
}

// openCalls makes calls. The record comes first: a node that cannot record must not start. self is this node with its
// labels; lent reports whether an agent is lent to a node. With an error it returns what it has opened so far.
func openCalls(n *Node, self community.Member, peers *peers.Peers, report *reporter, lent func(to community.NodeID, m community.MemberID) bool) (c *calls, err error) {
	c = &calls{node: n}
	cfg, l := n.cfg, n.cfg.Settings.Limits
	if c.audit, err = audit.Open(n.kept.Audit(), audit.Config{Checkpoint: n.kept.Checkpoint(), Signer: peers.Identity, Logger: cfg.Logger}); err != nil {
		return c, err
	}
	c.inbound = inbound.New(inbound.Config{
		Node: self.Node, Rules: n.rules.Inbound, Append: c.record, Events: n.events,
		Peer:  func(id community.NodeID) (community.Peer, bool) { return c.community.Peer(id) },
		Lent:  lent,
		Given: func(to community.NodeID) bool { return c.artifacts.HasGiven(to) },
	})
	var onCall func(context.Context, community.CallInfo) (context.Context, func(error))
	if n.telemetry != nil {
		onCall = n.telemetry.Call
	}
	c.system = actor.NewSystem(actor.Config{Mailbox: l.Mailbox, Logger: cfg.Logger})
	c.community = community.New(community.Config{
		Node: self.Node, Name: self.Name, Metadata: self.Metadata, System: c.system, Network: peers.Network, Authorize: c.inbound.Authorize, OnRefused: report.refused, OnUndelivered: report.undelivered, OnLeftOut: report.leftOut, OnCall: onCall, Logger: cfg.Logger,
		MaxAgents: l.Agents, MaxMessage: l.Message, MaxPartial: l.Stream, MaxNodeCalls: l.NodeCalls, MaxAgentCalls: l.AgentCalls,
		RefusalRate: rate.Limit(l.RefusalRate), RefusalBurst: l.RefusalBurst, MaxPeerMembers: l.PeerMembers, MaxCapabilities: l.Capabilities, MaxDepth: l.JSONDepth, MaxCall: l.CallTimeout, Drain: drain,
	})
	if c.artifacts, err = artifacts.Open(artifacts.Config{
		Dir: n.kept.Artifacts(), MaxSize: int64(cfg.Settings.Artifacts.MaxSize), Community: c.community, Allowed: func(from community.NodeID) bool { return c.inbound.Allowed(from, artifacts.Capability) },
		MaxMessage: l.Message, Keep: time.Duration(cfg.Settings.Artifacts.Keep), Sessions: n.sessions.Store(),
	}); err != nil {
		return c, err
	}
	c.approvals = approvals.New(approvals.Config{
		Node: self.Node, Name: self.Name, Community: c.community, Timeout: cfg.Settings.Approvals.Timeout, MaxMessage: l.Message, Events: n.events, Keep: n.rules.Keep,
	})
	return c, nil
}

// close waits until the actors have ended, and closes the record then, because an agent that ends may
// still record a decision.
func (c *calls) close() {
	if c.system != nil {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		if err := c.system.Shutdown(ctx); err != nil {
			c.node.cfg.Logger.Warn("actors still running at the end", "err", err)
		}
	}
	if c.audit != nil {
		if err := errors.Join(c.inbound.Flush(), c.audit.Close()); err != nil {
			c.node.cfg.Logger.Warn("closing the audit log", "err", err)
		}
	}
}

// record appends to the record of decisions. If that fails the call is denied,
// and a warning event tells the person who runs the node.
func (c *calls) record(e audit.Entry) error {
	if c.node.telemetry != nil && !e.Approved {
		c.node.telemetry.Refused(e.Tool)
	}
	err := c.audit.Append(e)
	if err != nil {
		c.node.events.Warn("all calls are denied now: "+err.Error(), "symbio doctor")
	}
	return err
}

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
// agents, which uses them all. With an error it returns what it has opened so far.
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
	if a.places, err = places.Open(places.Config{Self: self, Settings: c.Settings, Kept: n.kept, Community: calls.community, Definition: a.defined.Find, Logger: c.Logger}); err != nil {
		return a, err
	}
	policy, _ := c.Settings.Sandbox.Policy(c.Workspace(), c.Home) // tools.Open has reported the error
	use := c.Skills().Use()
	use.Uses = n.sessions.SkillUses()
	a.factory = agent.NewFactory(agent.Config{
		Community: calls.community, Chooser: a.places.Chooser, Workspaces: a.places.Workspaces, OpenWorkspace: have.OpenCheckout, Skills: skills.Registry, SkillUse: use, Trust: c.Skills().Trust, Approvals: n.rules,
		WorkContext: agent.WorkContext{
			Files: c.Settings.Context.Files, UserDir: c.configDir(), Environment: c.Settings.Context.Environment, Sandbox: policy, SandboxOff: c.Settings.Sandbox.IsOff(), Level: a.runner.Level,
		},
		Tools: more, Middleware: c.Middleware, SearchAbove: c.Settings.Tools.SearchAbove, Window: models.Providers(c.Settings, c.Getenv, c.Models).Window, DynamicTools: a.servers.Tools,
		Definition: a.defined.Find, Model: a.models.Open, Effort: c.Settings.Effort, Dir: c.Workspace(), Report: n.events.Publish, Record: calls.record, Journal: n.sessions.Journal, Artifacts: agent.Artifacts{Store: calls.artifacts.Store(), Give: calls.artifacts.Give, Fetch: calls.artifacts.Fetch}, BudgetAlert: c.Settings.Budget.Alert, RealTime: c.Settings.Session.Clock == config.ClockReal, OnResume: calls.approvals.Withdraw, OnAsk: onAsk, Logger: c.Logger,
	})
	a.spawner = &tasks.Spawner{Factory: a.factory, Community: calls.community, Definitions: a.defined, Rules: n.rules.Policy, Limits: c.Settings.Budget.Limits, Logger: c.Logger}
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

// console has the parts that show the node to people and programs, and let them steer it.
type console struct {
	steering   *steering.Controller
	fleet      *fleet.Fleet
	dashboard  *dashboard.Dashboard
	controller *grpc.ClientConn // to the node's own control API, for the dashboard
	health     *grpchealth.Server
	metrics    *telemetry.Endpoint // nil = not served
}

// openConsole makes the console of a node whose other parts exist. The dashboard, which listens when it is asked to, uses
// the control API over the node's own socket, so that it can do what the command
// line can, and nothing else. With an error openConsole returns what it has opened so far.
func openConsole(p *parts) (c *console, err error) {
	n, id, message := p.node, p.peers.Identity.ID(), p.node.cfg.Settings.Limits.Message
	c = &console{health: telemetry.NewHealth()}
	if at := n.cfg.Settings.Metrics; at != "" {
		if c.metrics, err = telemetry.Listen(at, n.telemetry.Metrics(), c.health); err != nil {
			return c, err
		}
	}
	c.steering = steering.New(steering.Config{Node: id, Community: p.calls.community, Agents: p.agents.factory, MaxMessage: message, NodeName: p.report.nodeName})
	c.fleet = fleet.New(fleet.Config{
		Node: id, Name: n.name, Version: n.cfg.Version, Started: p.started, Community: p.calls.community, Nodes: p.peers.Network.Nodes, Agents: p.agents.factory, Events: n.events, MaxMessage: message,
		Health: func() (*symbiov1.Process, []string) { return health(p.peers) },
	})
	if c.controller, err = n.kept.Dial(); err != nil {
		return c, err
	}
	c.dashboard, err = dashboard.New(dashboard.Config{
		Name: n.name, Identity: p.peers.Identity, Listen: p.peers.Addr(), Client: symbiov1.NewControlClient(c.controller),
		Append: p.calls.record, Rules: func(definition string) []permission.LocatedRule { return rulesOf(p, definition) },
		Sessions: n.sessions.Journal, Resume: p.resumer.Resume,
		State: n.cfg.State, Skills: n.cfg.Skills().Registry, Logger: n.cfg.Logger,
	})
	return c, err
}

// close closes what nothing uses any more.
func (c *console) close() {
	if c.metrics != nil {
		_ = c.metrics.Close() // it is closed already if it ran
	}
	if c.controller != nil {
		_ = c.controller.Close()
	}
}

// controlServer returns the server of the control API.
func (p *parts) controlServer() *grpc.Server {
	n, a := p.node, p.agents
	return control.NewServer(control.Config{
		Name: n.name, Version: n.cfg.Version, Workspace: n.cfg.Workspace(), Started: p.started, Peers: p.peers, Community: p.calls.community,
		Events: n.events, Agents: a.spawner, Rules: n.rules, Approvals: p.calls.approvals, Steering: p.console.steering, Fleet: p.console.fleet, Artifacts: p.calls.artifacts,
		Model: a.models.Open, ModelHealth: a.models.Health, Skills: skillset.NewService(p.skills, a.servers), Tasks: p.tasks, Reload: p.reload, NodeName: p.report.nodeName,
		Resume: p.resumer.Order, Loads: a.places.Loads, Dashboard: p.console.dashboard.Open, Health: p.console.health, Logger: n.cfg.Logger,
		Users: n.cfg.Users,
	})
}

// health returns what the process takes, and what the person who runs the node should mend.
func health(p *peers.Peers) (*symbiov1.Process, []string) {
	var problems []string
	for _, s := range p.SourceHealth() {
		for _, why := range s.GetProblems() {
			problems = append(problems, s.GetName()+": "+why)
		}
	}
	return control.Process(), problems
}

// rulesOf returns the rules of the node and those of a definition, which both
// hold.
func rulesOf(p *parts, name string) []permission.LocatedRule {
	all := p.node.rules.Policy().Rules()
	if d, err := p.agents.defined.Find(name); err == nil {
		more, _ := d.Policy()
		all = append(all, more.Rules()...)
	}
	return all
}

// Dashboard makes the dashboard listen, if it does not yet, and returns an
// address that opens it once, within two minutes. listen is IP:PORT of
// loopback, "" = a free port. Call it while the node is ready.
func (n *Node) Dashboard(ctx context.Context, listen string) (url string, err error) {
	reply, err := n.parts.Load().console.dashboard.Open(ctx, &symbiov1.DashboardRequest{Listen: listen})
	return reply.GetUrl(), err
}
