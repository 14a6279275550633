package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/event"
	"symbio/community"
	"symbio/internal/agent/node/approvals"
	"symbio/internal/agent/node/rules"
	"symbio/internal/agent/node/sessions"
	"symbio/internal/agent/node/state"
	"symbio/internal/agent/node/tasks"
	"symbio/internal/agent/node/telemetry"
	"symbio/skills"
	"symbio/transport/grpcpeer"
)

// Protocol is the version of the wire protocol between nodes, MAJOR.MINOR.
// Nodes with the same MAJOR talk to each other.
const Protocol = "1.3"

// stopTimeout bounds the stop of a node. After it, agents and calls that have
// not ended are abandoned.
const stopTimeout = 5 * time.Second

// agentDrain is how long an agent may finish its current signal while the node
// stops. It is short, because a person who presses Ctrl-C does not wait for a
// model.
const agentDrain = time.Second

// Info says where a running node can be reached.
type Info struct {
	Name   string
	ID     community.NodeID
	Listen string
	Socket string
}

// Node is one node of the community. Its methods may be called concurrently.
// The fields of Node stay for its whole life; everything that depends on the
// identity of the node is in parts, which is replaced when the node joins a
// cluster.
type Node struct {
	cfg       Config
	name      string
	kept      state.Node
	release   func() error // of the name
	events    *event.Stream
	rules     *rules.Rules
	sessions  *sessions.Sessions
	ready     chan Info            // capacity 1: Run never waits for a reader
	telemetry *telemetry.Telemetry // nil = off
	drain     tasks.Gate

	// parts is atomic because every method reads it while Run may replace it.
	parts atomic.Pointer[parts]

	mu     sync.Mutex
	offers []func(*community.Community) error // guarded by mu; repeated when the node gets another identity
}

// New makes a node, which Run then runs. It reserves the name of the node and
// opens its listener, so that the caller learns of a conflict at once. The
// caller must call Run, which releases both; to give up a node, call Run with a
// context that has ended. The error says which part of the configuration cannot
// be used.
func New(cfg Config) (_ *Node, err error) {
	if cfg, err = cfg.WithDefaults(); err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, ready: make(chan Info, 1)}
	if n.name, n.release, err = claim(cfg); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()
	n.kept, n.drain.Name = cfg.State.Node(n.name), n.name
	if err := cfg.State.Prepare(); err != nil {
		return nil, err
	}
	if err := n.openTelemetry(); err != nil {
		return nil, err
	}
	if n.sessions, err = sessions.Open(sessions.Config{Session: n.cfg.Settings.Session, Node: n.name, File: n.kept.Sessions(), Logger: n.cfg.Logger}); err != nil {
		return nil, err
	}
	n.events = n.sessions.Events
	n.rules, err = rules.New(rules.Config{Start: cfg.Settings, Read: cfg.Read, Dir: cfg.Workspace(), Tools: cfg.RuleTools(),
		Standing: n.kept.Standing(), Events: n.events, Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	return n, n.assemble()
}

// close releases what New has opened.
func (n *Node) close() (err error) {
	if n.sessions != nil {
		err = n.sessions.Close()
	}
	err = errors.Join(err, n.release())
	if n.telemetry != nil {
		n.telemetry.Close() // it sends what is left
	}
	return err
}

// claim reserves the configured name, or the first free name that is derived
// from the name of the machine. The name must be unique because it is the
// directory of the node's state.
func claim(c Config) (name string, release func() error, err error) {
	if name = c.Settings.Node.Name; name != "" {
		if release, err = c.State.Node(name).Lock(); errors.Is(err, state.ErrRunning) {
			if process := c.State.Process(name); process != "" {
				err = fmt.Errorf("%w: %s", err, process)
			}
			err = fmt.Errorf("%w; run another node beside it: symbio up --name %s-2 --listen 127.0.0.1:0", err, name)
		}
		return name, release, err
	}
	return c.State.ClaimFree(state.NameOf(c.Host))
}

// assemble makes the parts for the current identity and repeats the offers of
// the program. It holds mu while it does, so that an Offer at the same time is
// neither lost nor made twice.
func (n *Node) assemble() error {
	p, err := openParts(n)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, offer := range n.offers {
		if err := offer(p.calls.community); err != nil {
			return errors.Join(err, p.close())
		}
	}
	n.parts.Store(p)
	return nil
}

// Run makes a node, calls do when it can be used, and stops it when do returns.
// If the node stops by itself, the context of do ends. The errors of the node
// and of do are joined.
func Run(ctx context.Context, cfg Config, do func(context.Context, *Node) error) (err error) {
	n, err := New(cfg)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	var nodeErr error
	done.Go(func() {
		defer stop()
		nodeErr = n.Run(ctx)
	})
	defer func() {
		stop()
		done.Wait()
		err = errors.Join(err, nodeErr)
	}()
	if _, ok := <-n.Ready(); !ok { // it could not start
		return nil
	}
	return do(ctx, n)
}

// errStop ends the parts of a node that was drained to be stopped.
var errStop = errors.New("the node was drained and stops")

// Run runs the node until ctx ends or it was drained to be stopped, and stops it within stopTimeout. When the
// node joins a cluster, Run stops all parts and starts new ones under the new
// identity. It returns nil after an orderly stop, else the error of the first
// part that failed. Call it once.
func (n *Node) Run(ctx context.Context) (err error) {
	defer close(n.ready)
	ctxOfEvents, stop := context.WithCancel(context.WithoutCancel(ctx)) // they are kept to the very end
	var events sync.WaitGroup
	events.Go(func() { n.events.Run(ctxOfEvents) })
	defer func() {
		stop()
		events.Wait()
		err = errors.Join(err, n.close())
	}()
	for {
		p := n.parts.Load()
		err := p.run(ctx)
		if errors.Is(err, errStop) {
			return p.close()
		}
		err = errors.Join(err, p.close())
		if !errors.Is(err, errOtherIdentity) || ctx.Err() != nil {
			return err
		}
		if err := n.sessions.Recover(); err != nil {
			return err
		}
		if err := n.assemble(); err != nil {
			return err
		}
	}
}

// Ready returns a channel that gets a value when the node can be used, and
// another one each time it starts again under a new identity. It is closed when
// Run returns. Only the latest value is kept if the channel is not read.
func (n *Node) Ready() <-chan Info { return n.ready }

// Community returns the node's view of all members. Do not keep the result:
// after the node has joined a cluster, Community returns another one.
func (n *Node) Community() *community.Community { return n.parts.Load().calls.community }

// Skills returns the registry of skills, nil if they are switched off.
func (n *Node) Skills() *skills.Registry { return n.parts.Load().skills.Registry }

// Approvals returns the calls that wait for the decision of a person.
func (n *Node) Approvals() *approvals.Queue { return n.parts.Load().calls.approvals }

// Events returns the event stream of the node. It stays the same for the life
// of the node.
func (n *Node) Events() *event.Stream { return n.events }

// Reload reads the settings with Config.Read and applies their rules; see
// rules.Rules.Reload.
func (n *Node) Reload() (changed, restart []string, err error) { return n.rules.Reload() }

// Definition returns the definition with this name; "" is general. An unknown
// name is community.ErrNotFound.
func (n *Node) Definition(name string) (definition.Definition, error) {
	return n.parts.Load().agents.defined.Find(name)
}

// Spawn starts an agent, which lives until it is terminated or the node stops.
// With Session.Keep of the order, or keep of its definition, it lives again when
// the node is started again.
// The order gets the node's rules, budget and approvals where it has none of
// its own. A node that drains spawns none: community.ErrBusy.
func (n *Node) Spawn(ctx context.Context, o agent.Order) (community.Member, error) {
	if err := n.drain.Check(); err != nil {
		return community.Member{}, err
	}
	o.Session.Keep = o.Session.Keep || o.Definition.Keep
	return n.parts.Load().agents.spawner.Spawn(ctx, o)
}

// RunTask gives a task to a new agent of the named definition, here or on another node that lends it
// and has the labels of where, and returns its answer; see step.Tasks. Commands of the agent are held
// to the sandbox of a step.Guardrail around it only on this node, so it runs here then.
// A node that drains takes none: community.ErrBusy.
func (n *Node) RunTask(ctx context.Context, definition, task string, where ...string) (answer string, err error) {
	running := n.drain.Counter(tasks.WorkCommand, "RunTask")
	running.Add(1)
	defer running.Add(-1)
	if err := n.drain.Check(); err != nil {
		return "", err
	}
	return n.parts.Load().tasks.Answer(ctx, definition, task, where)
}

// Offer offers a Go function as a capability to other nodes; see
// community.OfferFunc. Rules of authorize say which nodes may call it. The
// offer lasts for the life of the node, also under a new identity. It is withheld while the node drains.
func Offer[In, Out any](n *Node, c community.Capability, f func(context.Context, In) (Out, error), opts ...community.OfferOption) error {
	running := n.drain.Counter(tasks.WorkCall, c.Name)
	counted := func(ctx context.Context, in In) (Out, error) {
		running.Add(1)
		defer running.Add(-1)
		return f(ctx, in)
	}
	opts = append(opts[:len(opts):len(opts)], community.WithDrain())
	offer := func(to *community.Community) error { return community.OfferFunc(to, c, counted, opts...) }
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := offer(n.parts.Load().calls.community); err != nil {
		return err
	}
	n.offers = append(n.offers, offer)
	return nil
}

// openTelemetry makes what the environment and the settings ask for, and lets the log go there, too.
func (n *Node) openTelemetry() (err error) {
	self, err := n.kept.Identity()
	if err != nil {
		return err
	}
	n.telemetry, err = telemetry.New(context.Background(), telemetry.Config{
		Getenv: n.cfg.Getenv, Prometheus: n.cfg.Settings.Reports.Metrics != "", Name: n.name, ID: string(self.ID()), Version: n.cfg.Version,
		State: n.measured, Logger: n.cfg.Logger,
	})
	if n.telemetry != nil {
		n.cfg.Logger = n.telemetry.Logger(n.cfg.Logger)
		n.cfg.Middleware = n.telemetry.Agents(n.cfg.Middleware)
	}
	return err
}

// measured returns the figures of the node at this moment.
func (n *Node) measured() (s telemetry.State) {
	p := n.parts.Load()
	if p == nil { // it is starting
		return s
	}
	for _, other := range p.peers.Network.Nodes() {
		if other.State == grpcpeer.StateConnected || other.State == grpcpeer.StateSelf {
			s.Nodes++
		}
	}
	s.Members, s.Approvals = len(p.calls.community.Members()), p.calls.approvals.Waiting()
	return s
}
