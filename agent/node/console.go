package node

import (
	"context"

	"google.golang.org/grpc"
	grpchealth "google.golang.org/grpc/health"

	"symbio/internal/agent/node/control"
	"symbio/internal/agent/node/dashboard"
	"symbio/internal/agent/node/fleet"
	"symbio/internal/agent/node/peers"
	"symbio/internal/agent/node/skillset"
	"symbio/internal/agent/node/steering"
	"symbio/internal/agent/node/telemetry"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/permission"
)

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
// line can, and nothing else. With an error openConsole returns the parts that are open so far.
func openConsole(p *parts) (c *console, err error) {
	n, id, message := p.node, p.peers.Identity.ID(), p.node.cfg.Settings.Limits.Message
	c = &console{health: telemetry.NewHealth()}
	if at := n.cfg.Settings.Reports.Metrics; at != "" {
		if c.metrics, err = telemetry.Listen(at, n.telemetry.Metrics(), c.health); err != nil {
			return c, err
		}
	}
	c.steering = steering.New(steering.Config{Node: id, Community: p.calls.community, Agents: p.agents.factory, MaxMessage: message, NodeName: p.report.nodeName})
	c.fleet = fleet.New(fleet.Config{
		Node: id, Name: n.name, Version: n.cfg.Version, Started: p.started, Community: p.calls.community, Nodes: p.peers.Network.Nodes,
		Agents: p.agents.factory, Events: n.events, MaxMessage: message,
		Health: func() (*symbiov1.Process, []string) { return health(p.peers) },
	})
	if c.controller, err = n.kept.Dial(); err != nil {
		return c, err
	}
	c.dashboard, err = dashboard.New(dashboard.Config{
		Name: n.name, Identity: p.peers.Identity, Listen: p.peers.Addr(), Client: symbiov1.NewControlClient(c.controller),
		Append: p.calls.record, Rules: func(definition string) []permission.LocatedRule { return rulesOf(p, definition) },
		Sessions: n.sessions.Journal, Resume: p.resumer.Resume,
		State: n.cfg.State, Skills: n.cfg.Skills().Registry, Events: n.events, Agents: p.agents.factory.Activities, Logger: n.cfg.Logger,
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
		Version: n.cfg.Version, Workspace: n.cfg.Workspace(), Started: p.started, Peers: p.peers,
		Community: p.calls.community, Events: n.events, Agents: a.spawner, Rules: n.rules, Approvals: p.calls.approvals,
		Steering: p.console.steering, Fleet: p.console.fleet, Artifacts: p.calls.artifacts, Model: a.models.Open,
		ModelHealth: a.models.Health, Skills: skillset.NewService(p.skills, a.servers), Tasks: p.tasks, Reload: p.reload,
		NodeName: p.report.nodeName, Resume: p.resumer.Order, Loads: a.places.Loads, Dashboard: p.console.dashboard.Open,
		Health: p.console.health, Drain: &n.drain, Logger: n.cfg.Logger, Users: n.cfg.Users,
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
	return fleet.Process(), problems
}

// rulesOf returns the rules of the node and of a definition, which both
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
