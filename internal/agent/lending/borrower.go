package lending

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"symbio/agent/budget"
	"symbio/agent/event"
	"symbio/agent/tool"
	"symbio/agent/tool/replicate"
	"symbio/community"
	"symbio/internal/agent/content"
	"symbio/internal/agent/placement"
	"symbio/internal/agent/tool/peer"
	"symbio/internal/agent/workspace/transfer"
	"symbio/internal/security/visible"
	"symbio/security/sandbox"
)

// Community is the part of *community.Community that a Borrower uses.
type Community interface {
	peer.Community
	Member(id community.MemberID) (community.Member, bool)
	Subscribe() *community.Subscription
}

// Borrower is the community of an agent that can borrow agents of other nodes. A signal to a
// borrowed agent may take as long as that agent's lease, and the account knows what it spent when
// Send returns.
type Borrower struct {
	Community
	// Self is the agent that borrows.
	Self community.Member
	// Owner returns what the Borrower asks and tells about that agent. It is called when something of it is needed, since most
	// agents borrow none.
	Owner func() Owner

	// calls are the running calls that are leases. Go is called with mu held and never after closed
	// is set, so Close can wait.
	calls sync.WaitGroup

	mu sync.Mutex
	// closed is set by Close; guarded by mu.
	closed bool
	// borrowed are the agents whose calls run; guarded by mu.
	borrowed map[*BorrowedAgent]struct{}
}

// Owner is the agent that borrows, as a Borrower needs it.
type Owner struct {
	// Constraints returns the encoded constraints of the agent for calls with ctx (Signal.OnBehalf).
	Constraints func(ctx context.Context) ([]byte, error)
	// OnlyReads reports whether the agent's mode is plan.
	OnlyReads func() bool
	// Sandbox returns what commands of the agent are held to in ctx, as the lender can hold them to it;
	// nil = nothing. The error says what no other node can.
	Sandbox func(ctx context.Context) (*sandbox.Portable, error)
	// Spent is called with what a borrowed agent spent more, Progress when one reports an activity.
	Spent    func(more budget.Spent)
	Progress func(of community.Member, message string)
	// Ask puts a call of a borrowed agent of a node to the person of the agent, and waits for the answer.
	// It must return when ctx ends, and may be called by several goroutines.
	Ask func(ctx context.Context, node community.Member, of community.MemberID, q Question) tool.Answer
	// Denied is called with a call of a borrowed agent of a node that its node denied without a person's word: Why says
	// why. Send does not return before it was called with those that the node reports.
	Denied func(node community.Member, q Question)
}

// The time limits for a lender.
const (
	// spawnTimeout is how long the lender may take to spawn the agent and name it. Opening its
	// model may take a request to a server.
	spawnTimeout = 15 * time.Second
	// memberTimeout is how long gossip may take to bring the new member to this node, and the
	// lender to report the spending.
	memberTimeout = 5 * time.Second
	// lifeSlack is how much longer than the Wall of the share the call may last, so that the lender
	// can end the agent and send its final report.
	lifeSlack = endTimeout + 10*time.Second
)

// A lender's lines are read at this rate, per second. An honest one writes a line for each call of a model and each place, a few
// for a question, and waits while more are not read.
const lineRate, lineBurst = 50, 200

// Lenders returns the reachable nodes, without the own one, that lend a definition; "" = any.
func Lenders(c peer.Community, own community.NodeID, definition string) []community.Member {
	return slices.DeleteFunc(slices.Clone(c.Members()), func(m community.Member) bool {
		if !m.Available || m.Node == own || m.ID != community.MemberID(m.Node) || m.IsDraining() || !slices.Contains(m.Provides, Capability) {
			return true
		}
		// Without the schema of the capability the names are unknown; the lender then decides.
		offered, known := c.Capability(m.Node, Capability)
		return definition != "" && known && !slices.Contains(definitionsOf(offered.Input), definition)
	})
}

// Load asks a node how busy it is, and how many agents it would lend to the own node.
func Load(ctx context.Context, c peer.Community, own, node community.Member) (placement.Load, error) {
	s := community.Signal{Data: []byte(`{"load":true}`), ContentType: "application/json", Requester: []string{peer.Address(own)}}
	reply, err := c.InvokeStream(ctx, node.ID, Capability, s, nil)
	if err != nil {
		return placement.Load{}, err
	}
	u, err := readUpdate(reply.Data)
	if err == nil && u.Load == nil {
		err = errors.New("it does not say its load")
	}
	if err != nil {
		return placement.Load{}, fmt.Errorf("%w: node %s: %w", community.ErrInvalid, node.Name, err)
	}
	return u.Load.Checked(), nil
}

// Lender finds a node by its name or id, and checks that it lends that definition. The error lists
// the nodes or definitions that there are.
func (b *Borrower) Lender(name, definition string) (m community.Member, err error) {
	var names []string
	found := 0
	for _, one := range Lenders(b.Community, b.Self.Node, "") {
		if names = append(names, one.Name); visible.IsNamed(name, one.Name, string(one.ID)) {
			m, found = one, found+1
		}
	}
	// Without the schema of the capability the definitions are unknown; the lender then decides.
	c, known := b.Capability(m.Node, Capability)
	switch lent := definitionsOf(c.Input); {
	case found > 1:
		err = fmt.Errorf("%d nodes are called %q: name one by its id", found, name)
	case names == nil:
		err = fmt.Errorf("no node %q lends agents; none does now", name)
	case found == 0:
		err = fmt.Errorf("no node %q lends agents; these do: %s", name, strings.Join(names, ", "))
	case known && !slices.Contains(lent, definition):
		err = fmt.Errorf("node %s lends no agent %q, but %s: name one of them as agent", m.Name, definition, strings.Join(lent, ", "))
	}
	return m, err
}

// Order describes the agent to borrow.
type Order struct {
	// Definition is one of those that the node lends.
	Definition string
	// Name is the name of the new member; "" = the definition's.
	Name string
	// Reason says why the agent is needed, for the people of the other node.
	Reason string
	// Tools are the tools that it may use; nil = all that its definition has there.
	Tools []string
	// Workspace is the manifest of a workspace that was sent to the node; zero = none.
	Workspace content.Hash
	// Skills are those that are active for the borrowing agent.
	Skills []Skill
	// Events is called with each event of the agent and of its sub-agents on its node, in their order; nil = none are told. It
	// may block, and must return when the lease ends.
	Events func(event.Event)
}

// CallWorkspace returns the function with which a transfer.Client calls a node.
func (b *Borrower) CallWorkspace(node community.Member) func(context.Context, []byte) ([]byte, error) {
	return func(ctx context.Context, data []byte) ([]byte, error) {
		s := community.Signal{Data: data, ContentType: "application/octet-stream", Requester: peer.Requester(ctx)}
		if len(s.Requester) == 0 {
			s.Requester = []string{peer.Address(b.Self)}
		}
		reply, err := b.InvokeStream(ctx, node.ID, transfer.Capability, s, nil)
		return reply.Data, err
	}
}

// ToolFor names the tool by which agents have a capability that they must not invoke themselves; "" = there is none.
func ToolFor(capability string) string {
	switch capability {
	case Capability, transfer.Capability:
		return replicate.Name
	case content.Capability:
		return "Read"
	}
	return ""
}

// Borrow asks a node to spawn an agent, and returns when the agent can receive signals. That takes
// up to spawnTimeout and memberTimeout. loan is the agent's share of the budget. Borrow owns it
// from now on: it is closed when the agent has ended, or if Borrow returns an error. The errors are
// the errors of the lender, community.ErrUnavailable if it does not answer in time, community.ErrStopped
// after Close, and the cause of ctx.
func (b *Borrower) Borrow(ctx context.Context, node community.Member, loan *budget.Loan, o Order) (*BorrowedAgent, community.Member, error) {
	limits := loan.Granted()
	in := request{Agent: o.Definition, Name: o.Name, Reason: o.Reason, Tools: o.Tools, Share: encodeLimits(limits), Places: true,
		Parent: string(b.Self.ID), Workspace: o.Workspace, Skills: selectSkills(o.Skills), Events: o.Events != nil}
	s := community.Signal{ContentType: "application/json", Requester: peer.Requester(ctx)}
	var err error
	if in.Sandbox, err = b.Owner().Sandbox(ctx); err == nil {
		s.Data, err = json.Marshal(in)
	}
	if err == nil {
		s.OnBehalf, err = b.Owner().Constraints(ctx)
	}
	if err != nil {
		loan.Account.Close()
		return nil, community.Member{}, err
	}
	// A task that no other agent asked for is requested by the borrowing agent itself.
	if len(s.Requester) == 0 {
		s.Requester = []string{peer.Address(b.Self)}
	}
	// The call outlives the tool call that made it, and ends with the agent.
	life := max(limits.Wall, 0) + lifeSlack
	leased, cancel := context.WithTimeout(community.WithCallDuration(context.WithoutCancel(ctx), life), life)
	one := &BorrowedAgent{borrower: b, node: node, loan: loan, onEvent: o.Events, sandbox: in.Sandbox, state: lentState{skills: o.Skills},
		constraints: toldConstraints{telling: make(chan struct{}, 1), told: s.OnBehalf},
		maxLifetime: life, leased: leased, cancel: cancel, identified: make(chan struct{}), ended: make(chan struct{})}
	// Subscribed before the call, so that the new member cannot appear unnoticed.
	sub := b.Subscribe()
	defer sub.Close()
	if err := b.start(one, func() { one.run(leased, s) }); err != nil {
		cancel()
		loan.Account.Close()
		return nil, community.Member{}, err
	}
	m, err := one.awaitMember(ctx, sub)
	if err != nil {
		// ctx may have ended, so the agent is stopped with a context of its own.
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), memberTimeout)
		defer cancel()
		one.Stop(late)
		return nil, community.Member{}, fmt.Errorf("node %s: %w", node.Name, err)
	}
	return one, m, nil
}

// start runs the call of a borrowed agent in the background. The error is community.ErrStopped if
// the Borrower is closed.
func (b *Borrower) start(one *BorrowedAgent, run func()) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return community.ErrStopped
	}
	if b.borrowed == nil {
		b.borrowed = map[*BorrowedAgent]struct{}{}
	}
	b.borrowed[one] = struct{}{}
	b.calls.Go(run)
	return nil
}

// Close stops all borrowed agents at the same time and waits until their calls have ended. Stop
// bounds the wait by endTimeout even if ctx does not end. Borrow fails after that.
func (b *Borrower) Close(ctx context.Context) {
	b.mu.Lock()
	b.closed = true
	all := slices.Collect(maps.Keys(b.borrowed))
	b.mu.Unlock()
	var ending sync.WaitGroup
	for _, one := range all {
		ending.Go(func() { one.Stop(ctx) })
	}
	ending.Wait()
	b.calls.Wait()
}

// find returns the borrowed agent with an id; nil if the agent does not borrow that member.
func (b *Borrower) find(id community.MemberID) *BorrowedAgent {
	b.mu.Lock()
	defer b.mu.Unlock()
	for one := range b.borrowed {
		if one.id() == id {
			return one
		}
	}
	return nil
}

// Send sends a signal to a member and waits for the reply. For a borrowed agent it updates the
// account before it returns, so that the parent's budget is exact when the parent goes on. It refuses
// a task that would be done under other sandbox limits than those with which the agent was spawned.
func (b *Borrower) Send(ctx context.Context, to community.MemberID, s community.Signal) (community.Reply, error) {
	one := b.find(to)
	if one == nil {
		return b.Community.Send(ctx, to, s)
	}
	if held, err := b.Owner().Sandbox(ctx); err != nil || held != nil && !reflect.DeepEqual(held, one.sandbox) {
		return community.Reply{}, cmp.Or(err, errOtherSandbox)
	}
	if err := one.tellConstraints(ctx); err != nil {
		return community.Reply{}, err
	}
	reply, err := b.Community.Send(community.WithCallDuration(ctx, one.maxLifetime), to, s)
	one.updateSpent(ctx)
	return reply, err
}
