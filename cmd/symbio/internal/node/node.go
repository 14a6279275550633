package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"

	"symbio/actor"
	"symbio/agent"
	"symbio/agent/llm/tape"
	"symbio/agent/tool/builtin"
	"symbio/agent/tool/mcp"
	"symbio/cmd/symbio/internal/config"
	"symbio/community"
	"symbio/discovery"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/audit"
	"symbio/security/identity"
	"symbio/security/permission"
	"symbio/security/standing"
	"symbio/skills"
	"symbio/transport/grpcpeer"
)

// Protocol is the version of the wire between nodes that this build speaks.
const Protocol = "1.2"

// stopTimeout is how long a stop may take; after it the node ends with what it could not finish.
const stopTimeout = 5 * time.Second

// drain is how long an agent of a node that stops may go on with what it is doing: somebody who
// presses Ctrl-C does not wait for a model.
const drain = time.Second

// Options are what a node is made of. What they do not say is not read from anywhere else.
type Options struct {
	Config config.Config
	State  State
	// Dir is where the node was started, Home the user's home directory, Host the machine's name.
	Dir, Home, Host string
	// Getenv reads the environment, for the keys of models and the paths of skills.
	Getenv  func(string) string
	Version string
	Logger  *slog.Logger // default: silent
	// Ready is called once, when the node can be used. Its error ends the node.
	Ready func(Ready) error
	// Watch sees every event, one at a time. It may lag behind, and must not block for ever.
	Watch func(Event)
	// Record writes down what is said with models' servers, Replay plays it again: then no server is asked. nil = neither.
	Record *tape.Recorder
	Replay *tape.Player
}

// Ready says where a node can be reached.
type Ready struct {
	Name   string
	ID     community.NodeID
	Listen string
	Socket string
}

// Node is a running node.
type Node struct {
	opts    Options
	name    string
	id      community.NodeID
	self    *identity.Identity
	reborn  chan struct{} // asks for a start under another identity
	listen  string
	pid     int
	started time.Time
	log     *slog.Logger

	events    *Events
	system    *actor.System
	community *community.Community
	network   *grpcpeer.Network
	roster    *discovery.Roster
	sources   []discovery.Source
	skills    *skills.Registry // nil = off
	mcp       *mcp.Manager
	files     *builtin.Workspace
	factory   *agent.Factory
	lender    *agent.Lender // nil = no agents are lent
	agents    map[string]agent.Definition
	policy    permission.Policy
	inbound   permission.Inbound
	web       *http.Client
	boxes     boxes
	execs     []command // what answers for capabilities
	approvals approvals
	audit     *audit.Log
	calls     *audit.Calls // of other nodes
	standing  *standing.Book
	scope     string // the digest of policy
}

// Run runs a node until ctx ends, and then stops it within stopTimeout. It returns early when the
// node cannot be what its configuration says.
func Run(ctx context.Context, o Options) (err error) {
	name, release, err := claim(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	events := NewEvents(name)
	for {
		err := live(ctx, o, name, events)
		if !errors.Is(err, errOtherIdentity) {
			return err
		}
	}
}

// live runs a node under the identity that it has now.
func live(ctx context.Context, o Options, name string, events *Events) error {
	n := &Node{opts: o, name: name, pid: os.Getpid(), started: time.Now(), log: o.Logger, events: events, reborn: make(chan struct{}, 1)}
	if n.log == nil {
		n.log = slog.New(slog.DiscardHandler)
	}
	listener, err := n.assemble(ctx)
	if err != nil {
		return err
	}
	defer n.close()
	socket, err := o.State.listenControl(name)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	return n.run(ctx, socket)
}

func claim(o Options) (name string, release func() error, err error) {
	if name = o.Config.Node.Name; name != "" {
		if release, err = o.State.Claim(name); errors.Is(err, ErrRunning) {
			err = fmt.Errorf("%w; choose another with --name", err)
		}
		return name, release, err
	}
	return o.State.ClaimFree(NameOf(o.Host))
}

// assemble makes the parts, each from those before it.
func (n *Node) assemble(ctx context.Context) (net.Listener, error) {
	o := n.opts
	id, err := o.State.Identity(n.name)
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	n.self, n.id = id, id.ID()
	if n.policy, err = o.Config.Permissions.Policy(); err != nil {
		return nil, fmt.Errorf("permissions: %w", err)
	}
	if n.policy, err = forPeople(n.policy); err != nil {
		return nil, err
	}
	if n.inbound, err = permission.NewInbound(o.Config.Authorize); err != nil {
		return nil, fmt.Errorf("authorize: %w", err)
	}
	// One that cannot be used is an error: an agent that somebody counts on must not be missing silently.
	if n.agents, err = o.Definitions(Known(nil)); err != nil {
		return nil, fmt.Errorf("agents: %w", err)
	}
	at := o.Config.Node.Listen
	if at == "" {
		if at, err = o.State.ListenOf(n.name); err != nil {
			return nil, err
		}
	}
	listener, err := net.Listen("tcp", at)
	if err != nil {
		return nil, fmt.Errorf("listening for other nodes: %w", err)
	}
	n.listen = listener.Addr().String()
	if n.network, err = grpcpeer.New(grpcpeer.Config{Identity: id, Listener: listener, Name: n.name, Authority: o.State.cluster(), Limits: peerLimits(o.Config), Logger: n.log, Report: n.reportNode}); err != nil {
		return nil, err // it has closed the listener
	}
	if err := n.parts(ctx, id, listener); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

func (n *Node) parts(ctx context.Context, id *identity.Identity, listener net.Listener) (err error) {
	o := n.opts
	l := o.Config.Limits
	n.system = actor.NewSystem(actor.Config{Mailbox: l.Mailbox, Logger: n.log})
	n.community = community.New(community.Config{
		Node: n.id, Name: n.name, System: n.system, Network: n.network, Authorize: n.authorize, Refused: n.refused, Undelivered: n.undelivered, Logger: n.log,
		MaxAgents: l.Agents, MaxMessage: l.Message, MaxPartial: l.Partial, MaxNodeCalls: l.NodeCalls, MaxAgentCalls: l.AgentCalls,
		CallRate: rate.Limit(l.Rate), CallBurst: l.Burst, MaxDepth: l.Depth, MaxCall: l.Call, Drain: drain,
	})
	if o.Config.Skills.Enabled {
		if err := o.State.makeSkills(); err != nil {
			return fmt.Errorf("skills: %w", err)
		}
		cfg := SkillsConfig(o)
		cfg.Report = n.reportSkill
		if n.skills, err = skills.NewRegistry(n.system, cfg); err != nil {
			return fmt.Errorf("skills: %w", err)
		}
	}
	if err := n.checkSkills(); err != nil {
		return err
	}
	if n.files, err = builtin.Open(o.Workspace(), o.Config.Directories...); err != nil {
		return fmt.Errorf("the workspace: %w", err)
	}
	if n.audit, err = audit.Open(o.State.Audit(n.name), audit.Config{}); err != nil {
		return err
	}
	n.recordCalls()
	n.approvals.timeout, n.approvals.node = o.Config.Approvals.Timeout, string(n.id)
	if err := n.openStanding(); err != nil {
		return err
	}
	n.boxes = newBoxes(o, n.name, n.reportSandbox)
	tools, err := n.tools()
	if err != nil {
		return err
	}
	if err := n.openMCP(); err != nil {
		return err
	}
	n.web = n.reach()
	n.factory = agent.NewFactory(agent.Config{
		Community: n.community, Skills: n.skills, SkillUse: n.skillUse(), Trust: n.trustSkill, Granted: n.granted,
		Tools: tools, SearchAbove: o.Config.Tools.SearchAbove, Window: o.Config.Windows.Of,
		More:       n.mcp.Tools,
		Definition: n.definition,
		Model:      n.model, Dir: n.files.Dir(), Report: n.reportAgent, Record: n.audit.Append, Logger: n.log,
	})
	if err := n.offer(); err != nil {
		return err
	}
	return n.discover(id, listener)
}

// discover prepares the sources of hints about other nodes. A node on loopback looks and is seen on
// loopback only.
func (n *Node) discover(id *identity.Identity, listener net.Listener) error {
	addr, err := netip.ParseAddrPort(listener.Addr().String())
	if err != nil {
		return err
	}
	n.roster = discovery.NewRoster(discovery.Config{Self: string(n.id), Here: here(addr.Port()), Tag: id.Tag(), Report: n.network.Sight, Logger: n.log})
	n.sources, err = sources(n.opts.Config.Discovery, string(n.id), id.Tag(), addr, n.log)
	n.sources = append(n.sources, n.network.Introduced()) // the last to be believed
	return err
}

// run runs the parts until ctx ends or one of them fails.
func (n *Node) run(ctx context.Context, socket net.Listener) error {
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(recoverUnary(n.log)), grpc.ChainStreamInterceptor(recoverStream(n.log)))
	symbiov1.RegisterControlServer(server, &control{node: n})
	reflection.Register(server)

	g, ctx := errgroup.WithContext(ctx)
	part := func(name string, run func(context.Context) error) {
		g.Go(func() error {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	part("community", n.community.Run)
	part("held", n.tellRefusing)
	part("mcp", n.mcp.Run)
	part("capabilities of mcp", n.offerMCP)
	part("discovery", func(ctx context.Context) error { return n.roster.Run(ctx, n.sources...) })
	changes := n.community.Subscribe()
	part("changes", func(ctx context.Context) error { return n.reportChanges(ctx, changes) })
	part("record of calls", n.countCalls)
	part("control", func(context.Context) error { return server.Serve(socket) })
	part("control's end", func(ctx context.Context) error { <-ctx.Done(); stopServer(server); return nil })
	var tap *Tap
	if n.opts.Watch != nil {
		tap = n.events.Subscribe(time.Time{})
	}
	g.Go(func() error {
		select {
		case <-n.reborn:
			return errOtherIdentity
		case <-ctx.Done():
			return nil
		}
	})
	if n.opts.Ready != nil {
		if err := n.opts.Ready(Ready{n.name, n.id, n.listen, n.opts.State.Socket(n.name)}); err != nil {
			g.Go(func() error { return err })
		}
	}
	if tap != nil { // that it is ready is the first that is shown
		part("watch", func(ctx context.Context) error { return watch(ctx, tap, n.opts.Watch) })
	}
	return g.Wait()
}

// close ends what the parts shared, once none of them runs any more.
func (n *Node) close() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := n.system.Shutdown(ctx); err != nil {
		n.log.Warn("actors still running at the end", "err", err)
	}
	if n.audit != nil {
		if err := errors.Join(n.calls.Flush(), n.audit.Close()); err != nil {
			n.log.Warn("closing the audit log", "err", err)
		}
	}
	n.web.CloseIdleConnections()
	if err := n.files.Close(); err != nil {
		n.log.Warn("closing the workspace", "err", err)
	}
}

// stopServer lets calls of the control socket end by themselves for a moment, then ends them.
func stopServer(s *grpc.Server) {
	timer := time.AfterFunc(time.Second, s.Stop)
	defer timer.Stop()
	s.GracefulStop()
}

// watch shows every event, and after ctx has ended those that are left.
func watch(ctx context.Context, tap *Tap, show func(Event)) error {
	defer tap.Close()
	for {
		e, err := tap.Next(ctx)
		if err != nil {
			for e, ok := tap.take(); ok; e, ok = tap.take() {
				show(e)
			}
			return nil
		}
		show(e)
	}
}
