package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/event"
	"symbio/agent/node/approvals"
	"symbio/agent/node/rules"
	"symbio/agent/node/state"
	"symbio/community"
	"symbio/skills"
)

// Protocol is the version of the wire between nodes that this build speaks.
const Protocol = "1.2"

// stopTimeout is how long a stop may take; after it the node ends with what it could not finish.
const stopTimeout = 5 * time.Second

// drain is how long an agent of a node that stops may go on with what it is doing: a person who presses Ctrl-C does not wait
// for a model.
const drain = time.Second

// Info says where a node can be reached.
type Info struct {
	Name   string
	ID     community.NodeID
	Listen string
	Socket string
}

// Node is one node of the community. It is safe for concurrent use.
type Node struct {
	cfg     Config
	name    string
	kept    state.Node
	release func() error // of the name
	events  *event.Stream
	rules   *rules.Rules
	ready   chan Info

	parts atomic.Pointer[parts]

	mu     sync.Mutex
	offers []func(*community.Community) error // guarded by mu; made again when the node gets another identity
}

// New makes a node of its parts, which Run then runs: it takes the node's name and listens for other nodes. Run must be called
// to give that back, with a context that has ended if the node is not to run. It is an error when the node cannot be what its
// configuration says.
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
			err = errors.Join(err, n.release())
		}
	}()
	n.kept, n.events = cfg.State.Node(n.name), event.NewStream(n.name)
	if err := cfg.State.Prepare(); err != nil {
		return nil, err
	}
	n.rules, err = rules.New(rules.Config{Start: cfg.Settings, Read: cfg.Read, Dir: cfg.Workspace(), Standing: n.kept.Standing(), Events: n.events, Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	if err := n.assemble(); err != nil {
		return nil, err
	}
	return n, nil
}

func claim(c Config) (name string, release func() error, err error) {
	if name = c.Settings.Node.Name; name != "" {
		if release, err = c.State.Node(name).Claim(); errors.Is(err, state.ErrRunning) {
			err = fmt.Errorf("%w; choose another with --name", err)
		}
		return name, release, err
	}
	return c.State.ClaimFree(state.NameOf(c.Host))
}

// assemble makes the parts for the identity that the node has now.
func (n *Node) assemble() error {
	p, err := newParts(n)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, offer := range n.offers {
		if err := offer(p.community); err != nil {
			return errors.Join(err, p.close())
		}
	}
	n.parts.Store(p)
	return nil
}

// Run makes a node, calls do when it can be used, and stops it when do returns. If the node stops by itself, the context of do
// ends. The errors of the node and of do are joined.
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

// Run runs the node until ctx ends, and then stops it within stopTimeout. It may be called once.
func (n *Node) Run(ctx context.Context) (err error) {
	defer close(n.ready)
	defer func() { err = errors.Join(err, n.release()) }()
	for {
		p := n.parts.Load()
		err := errors.Join(p.run(ctx), p.close())
		if !errors.Is(err, errOtherIdentity) || ctx.Err() != nil {
			return err
		}
		if err := n.assemble(); err != nil {
			return err
		}
	}
}

// Ready has a value when the node can be used: once, and again when it starts again under another identity, as when it joins a
// cluster. It is closed when Run returns.
func (n *Node) Ready() <-chan Info { return n.ready }

// Community is the node's view of all members. After the node has got another identity, it returns another one.
func (n *Node) Community() *community.Community { return n.parts.Load().community }

// Skills is the registry of skills; nil = they are switched off.
func (n *Node) Skills() *skills.Registry { return n.parts.Load().skills }

// Approvals are the decisions that wait for a person.
func (n *Node) Approvals() *approvals.Desk { return n.parts.Load().approvals }

// Events is the stream of what happens on the node.
func (n *Node) Events() *event.Stream { return n.events }

// Reload reads the settings anew, with Config.Read, and takes up their rules; see rules.Rules.Reload.
func (n *Node) Reload() (changed, restart []string, err error) { return n.rules.Reload() }

// Definition finds an agent's definition by its name; "" is general.
func (n *Node) Definition(name string) (definition.Definition, error) {
	return n.parts.Load().definition(name)
}

// Spawn makes an agent. Rules, limits and the answers of people are the node's, unless the order has its own.
func (n *Node) Spawn(ctx context.Context, o agent.Order) (community.Member, error) {
	p := n.parts.Load()
	return p.factory.Spawn(ctx, p.complete(o))
}

// Ask gives an agent of its own a task, by the name of its definition, and returns the answer. The agent ends with the task.
func (n *Node) Ask(ctx context.Context, definition, task string) (string, error) {
	p := n.parts.Load()
	def, err := p.definition(definition)
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(task)
	if err != nil {
		return "", err
	}
	reply, err := p.oneTask(ctx, agent.Order{Definition: def}, community.Signal{Data: data})
	return string(reply.Data), err
}

// Offer offers a Go function as a capability to other nodes, as far as authorize lets them call it; see community.OfferFunc.
func Offer[In, Out any](n *Node, c community.Capability, f func(context.Context, In) (Out, error), opts ...community.OfferOption) error {
	offer := func(to *community.Community) error { return community.OfferFunc(to, c, f, opts...) }
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := offer(n.parts.Load().community); err != nil {
		return err
	}
	n.offers = append(n.offers, offer)
	return nil
}
