package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"symbio/agent/event"
	"symbio/community"
	"symbio/internal/agent/node/peers"
	"symbio/internal/agent/node/places"
	"symbio/internal/agent/node/sessions"
	"symbio/internal/agent/node/skillset"
	"symbio/internal/agent/node/tasks"
	symbiov1 "symbio/proto/symbio/v1"
)

// parts are the parts of a node under one identity.
type parts struct {
	node        *Node
	started     time.Time
	newIdentity chan struct{} // asks for a start under another identity
	stopNode    chan struct{} // asks for the end of a node that was drained
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
	p := &parts{node: n, started: time.Now(), newIdentity: make(chan struct{}, 1), stopNode: make(chan struct{}, 1),
		peers: new(peers.Peers), calls: new(calls), agents: new(agents), console: new(console)}
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
	self := community.Member{ID: community.MemberID(id), Node: id, Name: n.name, Metadata: places.Labels(c.Settings, p.peers.Self().Labels, c.Version, defined)}
	p.report.id, p.report.network = id, p.peers.Network
	lent := func(to community.NodeID, m community.MemberID) bool { return p.agents.places.HasLent(to, m) }
	if p.calls, err = openCalls(n, self, p.peers, p.report, lent); err != nil {
		return nil, err
	}
	p.report.community = p.calls.community
	if p.skills, err = skillset.Open(c.Skills(), skillset.Node{
		System: p.calls.system, Community: p.calls.community, Events: n.events, Report: p.report.skill, NodeName: p.report.nodeName,
		MaxMessage: c.Settings.Limits.Message,
	}, defined); err != nil {
		return nil, err
	}
	if p.agents, err = openAgents(n, self, defined, p.calls, p.skills, p.report); err != nil {
		return nil, err
	}
	p.tasks = tasks.New(tasks.Config{
		Self: self, Agents: p.agents.spawner, Chooser: p.agents.places.Chooser, Rules: n.rules, Dir: c.Workspace(),
		Workspaces: p.agents.places.Workspaces, NodeName: p.report.nodeName,
	})
	p.resumer = sessions.NewResumer(sessions.ResumerConfig{
		Sessions: n.sessions, Agents: p.agents.spawner, Approvals: p.calls.approvals, Model: p.agents.models.Open, Dir: c.Workspace(),
	})
	if p.console, err = openConsole(p); err != nil {
		return nil, err
	}
	n.drain.Use(tasks.GateParts{Work: p.running, Stop: p.stop})
	return p, p.offerAll()
}

// running returns the agents that have a task, and those that are lent.
func (p *parts) running() (all []*symbiov1.Work) {
	working := map[string]uint32{}
	for _, a := range p.agents.factory.Activities() {
		if a.Working {
			working[a.Member.Name]++
		}
	}
	for name, n := range working {
		all = append(all, &symbiov1.Work{Kind: tasks.WorkAgent, Name: name, Count: n})
	}
	for node, n := range p.agents.places.Lent() {
		all = append(all, &symbiov1.Work{Kind: tasks.WorkLent, Name: p.report.nodeName(node), Count: uint32(n)})
	}
	return all
}

// stop makes Node.Run end.
func (p *parts) stop() {
	select {
	case p.stopNode <- struct{}{}:
	default: // it is asked already
	}
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
		case <-p.stopNode:
			return errStop
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
			return p.agents.servers.Offer(ctx, p.node.cfg.Settings.Capabilities, p.offerWork)
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
		{"agents of other nodes", p.tasks.Run},
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
