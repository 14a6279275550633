package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	grpchealth "google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"symbio/actor"
	"symbio/agent"
	"symbio/agent/budget"
	"symbio/agent/content"
	"symbio/agent/definition"
	"symbio/agent/event"
	"symbio/agent/lending"
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
	"symbio/agent/node/steering"
	"symbio/agent/node/telemetry"
	"symbio/agent/placement"
	"symbio/agent/step"
	"symbio/agent/tool"
	"symbio/agent/tool/builtin"
	"symbio/agent/tool/mcp"
	"symbio/agent/workspace/transfer"
	"symbio/community"
	"symbio/discovery"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/audit"
	"symbio/security/identity"
	"symbio/skills"
	"symbio/transport/grpcpeer"
)

// parts are the parts of a node under one identity. newParts makes them in
// order, each from the ones before it, and close must work when only some
// exist.
type parts struct {
	*Node
	id          community.NodeID
	report      *reporter
	self        *identity.Identity
	newIdentity chan struct{}   // asks for a start under another identity
	resumed     chan resumption // interrupted tasks that are to go on
	listener    net.Listener
	started     time.Time

	system     *actor.System
	community  *community.Community
	network    *grpcpeer.Network
	roster     *discovery.Roster
	sources    []discovery.Source
	skills     *skills.Registry // nil = off
	registryMu sync.Mutex       // held while skills.registry is read
	runner     *exec.Runner
	files      *builtin.Workspace
	servers    *mcpservers.Servers
	models     *models.Models
	chooser    *placement.Chooser
	factory    *agent.Factory
	lender     *lending.Lender // nil = no agents are lent
	workspaces *transfer.Server
	agents     map[string]definition.Definition
	calls      *step.Cluster // of tasks
	approvals  *approvals.Queue
	steering   *steering.Controller
	fleet      *fleet.Fleet
	inbound    *inbound.Authorizer
	artifacts  *artifacts.Server
	audit      *audit.Log
	dashboard  *dashboard.Dashboard
	controller *grpc.ClientConn // to the node's own control API, for the dashboard
	health     *grpchealth.Server
	metrics    *telemetry.Endpoint // nil = not served
}

// newParts makes all parts. It closes those that it made if a later one fails.
func newParts(n *Node) (_ *parts, err error) {
	p := &parts{Node: n, newIdentity: make(chan struct{}, 1), resumed: make(chan resumption), started: time.Now()}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if p.self, err = n.kept.Identity(); err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	p.id = p.self.ID()
	p.report = &reporter{id: p.id, name: n.name, events: n.events, log: n.cfg.Logger, policy: n.rules.Policy}
	// A broken definition is an error: an agent that a person relies on must
	// not be missing silently.
	if p.agents, err = n.cfg.Definitions(Known(nil)); err != nil {
		return nil, fmt.Errorf("agents: %w", err)
	}
	for _, make := range []func() error{func() error { return openMetrics(p) }, p.listen, p.join, p.openSkills, p.openTools, p.offerAll, p.discover, func() error { return openDashboard(p) }} {
		if err := make(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// listen opens the listener for other nodes and the network over it. Addresses
// of nodes that were met before are handed to the network, so that a restarted
// node finds its cluster without discovery.
func (p *parts) listen() (err error) {
	c := p.cfg
	at := c.Settings.Node.Listen
	if at == "" {
		if at, err = p.kept.ListenAddr(); err != nil {
			return err
		}
	}
	if p.listener, err = net.Listen("tcp", at); err != nil {
		return fmt.Errorf("listening for other nodes: %w; choose another address with --listen, or with the key node.listen", err)
	}
	addrs := map[community.NodeID]netip.AddrPort{}
	for id, a := range p.kept.Addresses() {
		addrs[id] = a.Addr
	}
	p.network, err = grpcpeer.New(grpcpeer.Config{
		Identity: p.self, Listener: p.listener, Name: p.name, Authority: c.State.Cluster(), KnownAddrs: addrs, Limits: peerLimits(c.Settings), Logger: c.Logger, Report: p.report.node,
	})
	p.report.network = p.network
	return err
}

// join makes the community, and the parts that authorize, record and approve
// its calls. The record comes first: a node that cannot record must not start.
func (p *parts) join() (err error) {
	c, l := p.cfg, p.cfg.Settings.Limits
	if p.audit, err = audit.Open(p.kept.Audit(), audit.Config{Checkpoint: p.kept.Checkpoint(), Signer: p.self, Logger: c.Logger}); err != nil {
		return err
	}
	p.inbound = inbound.New(inbound.Config{
		Node: p.id, Rules: p.rules.Inbound, Append: p.record, Events: p.events,
		Peer:  func(id community.NodeID) (community.Peer, bool) { return p.community.Peer(id) },
		Lent:  func(to community.NodeID, m community.MemberID) bool { return p.lender != nil && p.lender.Has(to, m) },
		Given: func(to community.NodeID) bool { return p.artifacts.HasGiven(to) },
	})
	var onCall func(context.Context, community.CallInfo) (context.Context, func(error))
	if p.telemetry != nil {
		onCall = p.telemetry.Call
	}
	p.system = actor.NewSystem(actor.Config{Mailbox: l.Mailbox, Logger: c.Logger})
	p.community = community.New(community.Config{
		Node: p.id, Name: p.name, Metadata: labelsOf(p), System: p.system, Network: p.network, Authorize: p.inbound.Authorize, OnRefused: p.report.refused, OnUndelivered: p.report.undelivered, OnLeftOut: p.report.leftOut, OnCall: onCall, Logger: c.Logger,
		MaxAgents: l.Agents, MaxMessage: l.Message, MaxPartial: l.Stream, MaxNodeCalls: l.NodeCalls, MaxAgentCalls: l.AgentCalls,
		RefusalRate: rate.Limit(l.RefusalRate), RefusalBurst: l.RefusalBurst, MaxPeerMembers: l.PeerMembers, MaxCapabilities: l.Capabilities, MaxDepth: l.JSONDepth, MaxCall: l.CallTimeout, Drain: drain,
	})
	p.report.community = p.community
	p.calls = step.NewCluster(&taskCalls{Community: p.community, unaccepted: map[community.MemberID]int{}})
	store, err := content.Open(content.Config{Dir: p.kept.Artifacts(), MaxSize: int64(c.Settings.Artifacts.MaxSize)})
	if err != nil {
		return err
	}
	p.artifacts = artifacts.New(artifacts.Config{
		Store: store, Community: p.community, Allowed: func(from community.NodeID) bool { return p.inbound.Allowed(from, artifacts.Capability) },
		MaxMessage: l.Message, Keep: time.Duration(c.Settings.Artifacts.Keep), Sessions: p.sessionStore(),
	})
	p.approvals = approvals.New(approvals.Config{
		Node: p.id, Name: p.name, Community: p.community, Timeout: c.Settings.Approvals.Timeout, MaxMessage: l.Message, Events: p.events, Keep: p.rules.Keep,
	})
	return nil
}

// openSkills opens the registry of skills, unless they are switched off, and
// checks the skills that definitions name.
func (p *parts) openSkills() (err error) {
	if !p.cfg.Settings.Skills.Enabled {
		return nil
	}
	cfg := p.cfg.SkillsConfig()
	cfg.Report = p.report.skill
	if p.skills, err = skills.NewRegistry(p.system, cfg); err != nil {
		return fmt.Errorf("skills: %w", err)
	}
	return p.checkSkills()
}

// openTools makes the tools, the MCP servers, the models, and the factory of
// agents, which uses them all.
func (p *parts) openTools() (err error) {
	c := p.cfg
	hooks := exec.Config{Denied: p.rules.Denied, Report: p.report.sandbox, Disarmed: p.report.disarmed, Artifacts: p.artifacts}
	var onAsk func(context.Context, agent.ApprovalRequest) func(tool.Answer)
	if p.telemetry != nil {
		hooks.OnRun, onAsk = p.telemetry.Run, p.telemetry.Asked
	}
	p.runner = c.runner(p.name, hooks)
	var tools []tool.Tool
	if p.files, tools, err = c.openWorkspace(p.runner, p.skills, p.fetchSkill); err != nil {
		return err
	}
	if p.workspaces, err = openTransfer(p); err != nil {
		return err
	}
	servers := c.servers(p.runner)
	servers.Report = p.report.mcp
	servers.Warn = func(capability, why string) { p.events.Warn(event.Warning{Capability: capability, Why: why}) }
	if p.servers, err = mcpservers.Open(servers); err != nil {
		return err
	}
	known := ruleTools(c)
	known.Servers = []string{}
	for _, s := range p.servers.Status() {
		known.Servers = append(known.Servers, mcp.ServerPart(s.Server.Name))
	}
	p.report.unmatched(c.Settings.Permissions.UnknownTools(known))
	p.models = models.New(models.Config{
		Settings: c.Settings, Getenv: c.Getenv, Community: p.community, Funcs: c.Models, Record: c.Record, Replay: c.Replay, Logger: c.Logger,
	})
	p.chooser = newChooser(p)
	use := c.skillUse()
	use.Uses = skillUses(p.sessions, c.Logger)
	p.factory = agent.NewFactory(agent.Config{
		Community: p.community, Chooser: p.chooser, Workspaces: p.workspaces, OpenWorkspace: openLease(p), Skills: p.skills, SkillUse: use, WorkContext: c.workContext(p.runner), Trust: c.trustSkill, Granted: p.rules.Granted,
		Tools: tools, Middleware: c.Middleware, SearchAbove: c.Settings.Tools.SearchAbove, Window: c.Providers().Window, DynamicTools: p.servers.Tools,
		Definition: p.definition, Model: p.models.Open, Effort: c.Settings.Effort, Dir: p.cfg.Workspace(), Report: p.report.agent, Record: p.record, Journal: p.sessions, Artifacts: agent.Artifacts{Store: p.artifacts.Store(), Give: p.artifacts.Give, Fetch: p.artifacts.Fetch}, BudgetAlert: c.Settings.Budget.Alert, RealTime: c.Settings.Session.Clock == config.ClockReal, OnResume: p.approvals.Withdraw, OnAsk: onAsk, Logger: c.Logger,
	})
	p.steering = steering.New(steering.Config{Node: p.id, Community: p.community, Agents: p.factory, MaxMessage: c.Settings.Limits.Message, NodeName: p.report.nodeName})
	p.fleet = fleet.New(fleet.Config{
		Node: p.id, Name: p.name, Version: c.Version, Started: p.started, Community: p.community, Nodes: p.network.Nodes, Agents: p.factory, Events: p.events, MaxMessage: c.Settings.Limits.Message, Health: func() (*symbiov1.Process, []string) { return health(p) },
	})
	return nil
}

// health returns what the process takes, and what the person who runs the node should mend.
func health(p *parts) (*symbiov1.Process, []string) {
	var problems []string
	for _, s := range control.SourceHealth(p.sources) {
		for _, why := range s.GetProblems() {
			problems = append(problems, s.GetName()+": "+why)
		}
	}
	return control.Process(), problems
}

// discover makes the sources of addresses of other nodes. The addresses that
// other nodes introduce come last, because they are the least trusted. A node
// on loopback searches, and announces itself, on loopback only.
func (p *parts) discover() error {
	addr, err := netip.ParseAddrPort(p.listener.Addr().String())
	if err != nil {
		return err
	}
	p.roster = discovery.NewRoster(discovery.Config{Self: string(p.id), IsOwnAddr: here(addr.Port()), Tag: p.self.Tag(), Report: p.network.AddHint, Logger: p.cfg.Logger})
	p.report.roster = p.roster
	p.sources, err = sources(p.cfg.Settings.Discovery, string(p.id), p.self.Tag(), addr, p.cfg.Logger)
	p.sources = append(p.sources, p.network.Introduced()) // the least trusted source
	return err
}

// complete returns the order with the node's rules, budget and approvals in
// place of missing ones.
func (p *parts) complete(o agent.Order) agent.Order {
	if o.Rules == nil {
		o.Rules = p.rules.Policy
	}
	if o.Limits == (budget.Limits{}) {
		o.Limits = p.cfg.Settings.Budget.Limits
	}
	if o.Ask == nil {
		o.Ask = p.unattended()
	}
	return o
}

// unattended returns the function that asks a person about calls of agents
// without a terminal. nil means that such calls are denied.
func (p *parts) unattended() func(context.Context, agent.ApprovalRequest) tool.Answer {
	if !p.cfg.Settings.Approvals.Unattended {
		return nil
	}
	return p.approvals.Ask
}

// run runs all parts until ctx ends or one of them fails, and returns when all
// goroutines have ended. The error names the part. errOtherIdentity asks the
// caller to start again with new parts.
func (p *parts) run(ctx context.Context) error {
	socket, err := p.kept.ListenControl()
	if err != nil {
		return err
	}
	server := control.NewServer(control.Config{
		Name: p.name, Version: p.cfg.Version, Listen: p.listener.Addr().String(), Workspace: p.cfg.Workspace(), Started: p.started, Identity: p.self, Community: p.community,
		Network: p.network, Sources: p.sources, Events: p.events, Agents: p.factory, Rules: p.rules, Approvals: p.approvals, Steering: p.steering, Fleet: p.fleet, Artifacts: p.artifacts,
		Limits: p.cfg.Settings.Budget.Limits, Definition: p.definition, Model: p.models.Open, ModelHealth: p.models.Health, Unattended: p.unattended(),
		MCP: slashCommands{p.servers, p.skills}, Skills: p.listSkills, SkillPrompt: p.cfg.PromptOfSkills, Reload: p.reload, NodeName: p.report.nodeName, Resume: p.resumeOrder, RunTask: tasks{p}.run, Loads: func(ctx context.Context) map[community.MemberID]placement.Load { return loads(ctx, p) }, Dashboard: p.dashboard.Open, Health: p.health, Logger: p.cfg.Logger,
		Users: p.cfg.Users,
	})
	g, failed := errgroup.WithContext(ctx)
	// The tasks are cancelled after the sessions know that it is the node that ends.
	ctx, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer context.AfterFunc(failed, func() { p.health.Shutdown(); p.suspendSessions(); stop(context.Cause(failed)) })()
	part := func(name string, run func(context.Context) error) {
		g.Go(func() error {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	part("community", p.community.Run)
	part("refusals", p.warnOfRefusals)
	part("mcp", p.servers.Run)
	part("capabilities of mcp", func(ctx context.Context) error {
		return p.servers.Offer(ctx, p.cfg.Settings.Capabilities, p.offer)
	})
	part("discovery", func(ctx context.Context) error { return p.roster.Run(ctx, p.sources...) })
	changes := p.community.Subscribe()
	part("changes", func(ctx context.Context) error { return p.report.changes(ctx, changes) })
	part("record of calls", p.inbound.Run)
	part("checkpoints of the record", p.audit.Run)
	part("addresses", p.keepAddresses)
	part("retention of sessions", p.pruneSessions)
	part("artifacts", p.artifacts.Run)
	resumes := resumer{p}
	part("registry of skills", registryNode{p}.follow)
	part("resumed sessions", resumes.resumeAnswered)
	part("dashboard", p.dashboard.Run)
	part("view of the community", p.fleet.Run)
	if p.metrics != nil {
		part("metrics", p.metrics.Run)
	}
	part("control", func(context.Context) error { return server.Serve(socket) })
	part("control's end", func(ctx context.Context) error { <-ctx.Done(); stopServer(server); return nil })
	g.Go(func() error {
		select {
		case <-p.newIdentity:
			return errOtherIdentity
		case <-ctx.Done():
			return nil
		}
	})
	p.warnOfSkills()
	auto := resumes.prepare(ctx)
	p.health.SetServingStatus("", grpc_health_v1.HealthCheckResponse_SERVING)
	select {
	case p.ready <- Info{p.name, p.id, p.listener.Addr().String(), p.kept.Socket()}:
	default: // the one before was not read
	}
	part("resumed tasks", func(ctx context.Context) error { return resumes.resumeAll(ctx, auto) })
	return g.Wait()
}

// close releases what the parts share, after run has returned. The order
// matters: actors end before the record closes, because an agent that ends may
// still record a decision.
func (p *parts) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if p.listener != nil {
		_ = p.listener.Close() // the network has closed it already if it ran
	}
	if p.metrics != nil {
		_ = p.metrics.Close() // it is closed already if it ran
	}
	if p.system != nil {
		if err := p.system.Shutdown(ctx); err != nil {
			p.cfg.Logger.Warn("actors still running at the end", "err", err)
		}
	}
	if p.audit != nil {
		var err error
		if p.inbound != nil {
			err = p.inbound.Flush()
		}
		if err := errors.Join(err, p.audit.Close()); err != nil {
			p.cfg.Logger.Warn("closing the audit log", "err", err)
		}
	}
	if p.controller != nil {
		_ = p.controller.Close() // nothing uses it any more
	}
	if p.models != nil {
		p.models.Close()
	}
	if p.files != nil {
		return p.files.Close()
	}
	return nil
}

// stopServer gives calls on the control socket one second to finish, then
// cancels them.
func stopServer(s *grpc.Server) {
	timer := time.AfterFunc(time.Second, s.Stop)
	defer timer.Stop()
	s.GracefulStop()
}

// record appends to the record of decisions. If that fails the call is denied,
// and a warning event tells the person who runs the node.
func (p *parts) record(e audit.Entry) error {
	if p.telemetry != nil && !e.Approved {
		p.telemetry.Refused(e.Tool)
	}
	err := p.audit.Append(e)
	if err != nil {
		p.events.Warn(event.Warning{Why: "all calls are denied now: " + err.Error(), Mend: "symbio doctor"})
	}
	return err
}

// warnOfRefusals reports, once, what the sandbox does not hold as the configuration's presets count on it, unless a person
// has switched it off by itself, and the capabilities whose calls will be refused
// because this machine's sandbox cannot hold their commands. Only the person
// who runs the node can change that, and callers see the refusal only.
func (p *parts) warnOfRefusals(context.Context) error {
	settings := p.cfg.Settings
	if why, mend := settings.Unheld(); why != "" && (!settings.Sandbox.IsOff() || settings.Permissions.Preset == "development") {
		p.events.Warn(event.Warning{Why: why, Mend: mend})
	}
	refused, err := p.runner.Refusals(settings.Capabilities, p.runner.Held)
	for _, r := range refused {
		p.cfg.Logger.Warn("capability refuses its calls", "capability", r.Capability, "why", r.Why)
		p.events.Warn(event.Warning{Capability: r.Capability, Why: "its calls are refused: " + r.Why, Mend: r.Mend})
	}
	return err
}

// peerLimits returns the limits of the transport. They are slightly wider than
// those of the community, so that the community refuses first: it counts
// refusals by node and says why.
func peerLimits(c config.Config) grpcpeer.Limits {
	l := c.Limits
	return grpcpeer.Limits{
		Message:     cmp.Or(l.Message, 1<<20) + 64<<10,
		Streams:     uint32(max(128, l.NodeCalls)), // wider than NodeCalls: the community answers ErrBusy with a reason, gRPC would not
		MaxDeadline: max(30*time.Minute, l.CallTimeout, lendingTime(c)),
		Connections: l.Connections, PerNode: l.NodeConnections, Handshakes: l.Handshakes,
		HandshakeRate: l.HandshakeRate, HandshakeBurst: l.HandshakeBurst, Joins: l.JoinsPerMinute, Grace: l.CertificateGrace,
	}
}
