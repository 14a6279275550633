package lending

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"symbio/agent/budget"
	"symbio/agent/definition"
	"symbio/agent/event"
	"symbio/community"
	"symbio/internal/agent/content"
	"symbio/internal/agent/placement"
	"symbio/internal/agent/tool/peer"
	"symbio/internal/agent/workspace/transfer"
	"symbio/security/sandbox"
)

// LenderConfig sets up a Lender. Community and Spawn are required.
type LenderConfig struct {
	Community Members
	// Spawn starts the agent of a lease and applies the lease's limits and constraints to it.
	// community.ErrBusy, ErrStopped, ErrInvalid and ErrUnavailable are sent to the borrower as they are; any
	// other error counts as an invalid name.
	Spawn func(ctx context.Context, l *Lease) (community.Member, error)
	// Definitions are those that are lent. Default: none.
	Definitions []definition.Definition
	// Limits bound the use of each lent agent together with its descendants.
	Limits budget.Limits
	// Max is how many lent agents may run at the same time, PerNode how many of them for one node;
	// one more is community.ErrBusy. Their sub-agents count in their own limits. Defaults 8 and 4:
	// each agent uses a model, and one borrower should not use up all.
	Max, PerNode int
	// MaxLifetime is how long one lease may last. Default: the Wall of its limits.
	MaxLifetime time.Duration
	// Approvals says who decides calls that need a person. Default: AskBorrower.
	Approvals Approvals
	// AskTimeout is how long a question to the borrower waits. Default: 10 minutes.
	AskTimeout time.Duration
	// Load returns what runs on this node and its free memory. Default: both unknown.
	Load func() placement.Load
	// Events returns what happens on this node from now on, for borrowers who follow an agent. Default: they are told nothing.
	Events func() *event.Subscription
	// Busy returns why no more agents are lent now, a community.ErrBusy; nil = they are. Default: they are.
	Busy func() error
	// Logger receives failures to stop an agent. Default: silent.
	Logger *slog.Logger
}

// Members is the part of *community.Community that a Lender uses.
type Members interface {
	Member(id community.MemberID) (community.Member, bool)
	Subscribe() *community.Subscription
	Terminate(ctx context.Context, id community.MemberID) error
}

// Lender lends agents of this node to agents of other nodes; it provides Capability. A lent agent
// is restricted by this node's policy and by its parent's constraints. Its budget is the smaller of
// the requested share and this node's limits. A Lender is safe for concurrent use.
type Lender struct {
	cfg LenderConfig

	// mu is not held while an agent is spawned or stopped, which can take seconds.
	mu     sync.Mutex
	leases map[*Lease]struct{} // guarded by mu
}

// Lease is one lent agent with its limits and constraints.
type Lease struct {
	Definition definition.Definition
	// Name of the member.
	Name string
	// Tools are the tools that it may use; nil = all of its definition.
	Tools []string
	// Account is the budget of the agent and its descendants.
	Account *budget.Account
	// Node is the borrower; Parent its member there, "" = no particular one.
	Node   community.NodeID
	Parent community.MemberID
	// Sandbox is what commands of the borrowing agent are held to; nil = to nothing.
	Sandbox *sandbox.Portable
	// MaxLifetime is how long the lease may last.
	MaxLifetime time.Duration
	// Approvals says who decides calls that need a person.
	Approvals Approvals
	// Skills are the borrowing agent's. Spawn sets Omitted to the ones that it does not activate.
	Skills  []Skill
	Omitted []OmittedSkill

	// Manifest names the workspace that the agent gets; zero = none. Spawn sets Checkout to what was made
	// of it, and CloseWorkspace, which the Lender calls when the agent has ended.
	Manifest       content.Hash
	Checkout       *transfer.Checkout
	CloseWorkspace func() error

	link borrowerLink
}

// borrowerLink is how a lease tells its borrower things and asks it.
type borrowerLink struct {
	// held is what the borrower sent last; see Constraints and OnlyReads.
	held atomic.Pointer[heldTo]
	// open are the channels of the questions that wait for the borrower's answer, by id, each for
	// askTimeout; waiting is their number.
	open       sync.Map
	waiting    atomic.Int32
	askTimeout time.Duration
	// denied are the first calls that no person was asked about or answered; guarded by deniedMu.
	deniedMu sync.Mutex
	denied   []Question
	// taking has an element while the borrower is asked for a place; its capacity is 1. So is that of spent: a value means that a
	// report is due. Changes until it is sent are in the same report.
	taking, spent chan struct{}
	// updates has room for the questions, for one Place, and for their withdrawals, so that no agent waits
	// for a borrower that does not read.
	updates chan update
	// done is closed when the lease ends; set by lend before the spawn.
	done <-chan struct{}
	// end ends the lease with a reason; the first one counts. Set before the lease is added.
	end      context.CancelCauseFunc
	followed bool // the borrower wants the events of the agent
	// report sends progress to the borrower; set by lend before the spawn.
	report func(community.Progress)
	// member is the lent agent; "" until it is spawned; guarded by Lender.mu.
	member community.MemberID
}

// Requesters returns the node and the member that borrow the agent, as in Signal.Requester.
func (l *Lease) Requesters() []string {
	if l.Parent == "" {
		return []string{string(l.Node)}
	}
	return []string{string(l.Node), string(l.Node) + "/" + string(l.Parent)}
}

// Progress reports an activity of the agent or a descendant to the borrower. It does nothing on a
// nil Lease.
func (l *Lease) Progress(message string) {
	if l != nil {
		l.link.report(community.Progress{Message: message})
	}
}

// SpentChanged asks for a report of the spending to the borrower. It does not block, and does
// nothing on a nil Lease.
func (l *Lease) SpentChanged() {
	if l == nil {
		return
	}
	select {
	case l.link.spent <- struct{}{}:
	default: // a report is due already
	}
}

// NewLender returns a Lender.
func NewLender(cfg LenderConfig) *Lender {
	cfg.Max, cfg.PerNode = cmp.Or(cfg.Max, 8), cmp.Or(cfg.PerNode, 4)
	cfg.Limits = cfg.Limits.WithDefaults()
	cfg.MaxLifetime = cmp.Or(cfg.MaxLifetime, cfg.Limits.Wall)
	cfg.AskTimeout = cmp.Or(cfg.AskTimeout, 10*time.Minute)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Lender{cfg: cfg, leases: map[*Lease]struct{}{}}
}

// MaxCallTime returns how long a call may last: as long as an agent may live, and it takes to end it.
func (l *Lender) MaxCallTime() time.Duration { return l.cfg.MaxLifetime + endTimeout }

// endTimeout is how long the end of an agent and its descendants may take.
const endTimeout = 30 * time.Second

// Capability returns the capability that the node registers for the Lender. Its schema lists the
// lent definitions.
func (l *Lender) Capability() (community.Capability, error) {
	var names []string
	for _, d := range l.cfg.Definitions {
		names = append(names, d.Name)
	}
	input, err := inputSchema(names)
	return community.Capability{
		Name: Capability, Input: input,
		Description: "Spawns a sub-agent here for an agent of another node, which has it with replicate_agent: " + strings.Join(names, ", ") +
			". It ends with the call.",
	}, err
}

// Has reports whether a member is lent to a node. That node may then send it signals without a rule
// under authorize.
func (l *Lender) Has(node community.NodeID, member community.MemberID) bool {
	return l.find(node, member) != nil
}

// Checkout returns the workspace of a member that is lent to a node; nil if there is none.
func (l *Lender) Checkout(node community.NodeID, member community.MemberID) *transfer.Checkout {
	if n := l.find(node, member); n != nil {
		return n.Checkout
	}
	return nil
}

// find returns the lease of that member to that node; nil if there is none. A node cannot reach the
// agents that another one has borrowed.
func (l *Lender) find(node community.NodeID, member community.MemberID) *Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := range l.leases {
		if n.Node == node && n.link.member == member && member != "" {
			return n
		}
	}
	return nil
}

// Provide serves one call of the capability; it is a community.Provider. A call that spawns an
// agent returns when that agent has ended. The error is community.ErrInvalid for a malformed
// request, ErrNotFound for an unknown agent, ErrBusy at a limit.
func (l *Lender) Provide(ctx context.Context, s community.Signal) (community.Reply, error) {
	if len(s.Requester) == 0 {
		return community.Reply{}, invalid("the call names no calling node")
	}
	node := community.NodeID(s.Requester[0])
	in, err := readRequest(s.Data)
	if err != nil {
		return community.Reply{}, invalid("the request: %v", err)
	}
	id := cmp.Or(in.End, in.Account, in.Constrain)
	if in.Answer != nil {
		id = in.Answer.Member
	}
	one := l.find(node, id)
	switch {
	case in.Load:
		return replyOf(update{Load: new(l.load(node))})
	case id != "" && one == nil, in.Answer != nil && !one.link.answer(*in.Answer):
		return community.Reply{}, community.ErrNotFound
	case in.Answer != nil:
		return replyOf(update{})
	case in.End != "": // the reply of the call that is the lease has the final report
		one.link.end(errEnded)
		return replyOf(update{})
	case in.Constrain != "":
		constraints, err := peer.Constraints(s)
		if err != nil {
			return community.Reply{}, err
		}
		one.link.held.Store(&heldTo{constraints, in.Plan})
		return replyOf(update{})
	case in.Account != "":
		return replyOf(one.reported())
	case !community.HasListener(ctx):
		return community.Reply{}, invalid("the call must be a streaming one, because the spawned agent's id is in its output")
	}
	n, err := l.lease(in, s)
	if err != nil {
		return community.Reply{}, err
	}
	leased, end := context.WithCancelCause(ctx)
	defer end(nil)
	n.link.end = end
	if err := l.add(n); err != nil {
		return community.Reply{}, err
	}
	defer l.remove(n)
	why, err := l.lend(leased, n)
	switch {
	case errors.Is(err, community.ErrUnavailable): // a reply, because as an error it does not say that nothing was spawned
		return replyOf(update{Why: community.Explanation(err)})
	case err != nil:
		return community.Reply{}, err
	case ctx.Err() != nil:
		// The caller is gone, so nothing can receive a report.
		return community.Reply{}, context.Cause(ctx)
	}
	final := n.reported()
	final.Why = why.Error()
	return replyOf(final)
}

// replyOf returns the update as the reply of a call.
func replyOf(u update) (community.Reply, error) {
	data, err := json.Marshal(u)
	return community.Reply{Data: data, ContentType: "application/json"}, err
}

// lease returns the lease for a request, limited to what this node lends. It trusts nothing in the
// request: the parent must not be a member of a third node, and the share only lowers this node's
// limits.
func (l *Lender) lease(in request, s community.Signal) (*Lease, error) {
	i := slices.IndexFunc(l.cfg.Definitions, func(d definition.Definition) bool { return d.Name == in.Agent })
	if i < 0 {
		return nil, community.Explain(community.ErrNotFound, fmt.Sprintf("this node lends no agent %.64q", in.Agent))
	}
	constraints, err := peer.Constraints(s)
	if err != nil {
		return nil, err
	}
	if m, known := l.cfg.Community.Member(community.MemberID(in.Parent)); known && string(m.Node) != s.Requester[0] {
		return nil, invalid("the parent is another node's")
	}
	d := l.cfg.Definitions[i]
	n := new(Lease)
	var places budget.Places
	if in.Places {
		places = leasePlaces{n}
	}
	account := budget.NewLent(l.cfg.Limits.Within(in.Share.limits()).Within(d.Budget), places)
	*n = Lease{
		Definition: d, Name: cmp.Or(in.Name, d.Name), Tools: in.Tools, Account: account, Node: community.NodeID(s.Requester[0]),
		Parent: community.MemberID(in.Parent), Sandbox: in.Sandbox, Manifest: in.Workspace, Skills: in.Skills,
		MaxLifetime: min(l.cfg.MaxLifetime, account.Wall()), Approvals: l.cfg.Approvals,
		link: borrowerLink{spent: make(chan struct{}, 1), taking: make(chan struct{}, 1), askTimeout: l.cfg.AskTimeout,
			updates: make(chan update, 2*maxQuestions+2), followed: in.Events},
		CloseWorkspace: func() error { return nil },
	}
	n.link.held.Store(&heldTo{constraints: constraints})
	if n.MaxLifetime <= 0 {
		return nil, invalid("its share has no time")
	}
	return n, nil
}

// add registers a lease, or returns community.ErrBusy at one of the two limits.
func (l *Lender) add(n *Lease) error {
	if l.cfg.Busy != nil {
		if err := l.cfg.Busy(); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.lentTo(n.Node)
	switch {
	case of >= l.cfg.PerNode:
		return community.Explain(community.ErrBusy, fmt.Sprintf("%d agents are lent to that node already, which is all that one may have", of))
	case len(l.leases) >= l.cfg.Max:
		return community.Explain(community.ErrBusy, fmt.Sprintf("%d agents are lent already, which is all", len(l.leases)))
	}
	l.leases[n] = struct{}{}
	return nil
}

// lentTo returns how many agents a node has borrowed. The caller must hold mu.
func (l *Lender) lentTo(node community.NodeID) (n int) {
	for lease := range l.leases {
		if lease.Node == node {
			n++
		}
	}
	return n
}

// load returns how busy this node is, and how many agents it would lend to a node now.
func (l *Lender) load(node community.NodeID) placement.Load {
	var load placement.Load
	if l.cfg.Load != nil {
		load = l.cfg.Load()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	load.Lent = len(l.leases)
	load.Free = max(min(l.cfg.Max-load.Lent, l.cfg.PerNode-l.lentTo(node)), 0)
	if l.cfg.Busy != nil && l.cfg.Busy() != nil {
		load.Free = 0
	}
	return load
}

// Lent returns how many agents each node has borrowed.
func (l *Lender) Lent() map[community.NodeID]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[community.NodeID]int{}
	for lease := range l.leases {
		all[lease.Node]++
	}
	return all
}

// remove removes a lease, which makes room for another one.
func (l *Lender) remove(n *Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.leases, n)
}

// Why a lease ends.
var (
	// The borrower gets the text in the final report, if it still listens.
	errEnded    = errors.New("its parent ended it")
	errTime     = errors.New("the time for which it was lent is over")
	errNodeGone = errors.New("its parent's node is gone")
)

// lend spawns the agent, waits until ctx or the lease's time ends, and stops the agent. why says
// what ended it. If err is set, no agent was spawned.
func (l *Lender) lend(ctx context.Context, n *Lease) (why, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, n.MaxLifetime, errTime)
	defer cancel()
	n.link.report, n.link.done = func(p community.Progress) { community.Report(ctx, p) }, ctx.Done()
	defer func() {
		if err := n.CloseWorkspace(); err != nil { // it stays until the next start of the node
			l.cfg.Logger.Warn("workspace of a lent agent not removed", "err", err)
		}
	}()
	var events *relay
	if n.link.followed && l.cfg.Events != nil {
		events = newRelay(l.cfg.Events()) // before the spawn, so that none is missed
		defer events.close()
	}
	m, err := l.cfg.Spawn(ctx, n)
	switch {
	case errors.Is(err, community.ErrBusy), errors.Is(err, community.ErrStopped), errors.Is(err, community.ErrUnavailable), errors.Is(err, community.ErrInvalid):
		return nil, err
	case err != nil:
		return nil, invalid("the agent's name: %.100q", n.Name)
	}
	defer l.stop(ctx, m.ID)
	l.mu.Lock()
	n.link.member = m.ID
	l.mu.Unlock()
	// The deferred calls run in reverse order: wait for watch, stop the agent, remove its workspace,
	// release the timer.
	// watch ends because the lease has ended.
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { n.link.end(l.watch(ctx, n.Node, m.ID)) })
	n.stream(ctx, m, events.of(m.ID))
	return context.Cause(ctx), nil
}

// reportInterval is how often a lender reports although nothing was spent: a borrower that loses it
// counts the time since the latest report.
const reportInterval = 2 * time.Second

// stream sends the borrower the spawned member, and then its events, and the spending after each change and each
// reportInterval, until ctx ends. An error of sending ends the lease: the borrower is gone.
func (l *Lease) stream(ctx context.Context, m community.Member, events *relay) {
	send := func(u update) {
		line, err := u.line()
		if err == nil {
			err = community.Emit(ctx, line, "application/x-ndjson")
		}
		if err != nil {
			l.link.end(err)
		}
	}
	send(update{Member: &memberInfo{ID: m.ID, Name: m.Name, Accepts: m.Accepts, Omitted: l.Omitted}})
	again := time.NewTicker(reportInterval)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case u := <-l.link.updates:
			send(u)
			continue
		case <-events.ready():
			for some := events.take(); len(some) > 0 && ctx.Err() == nil; some = events.take() {
				send(update{Events: some})
			}
			continue
		case <-l.link.spent:
		case <-again.C:
		}
		send(update{Spent: new(l.Account.Total()), Ended: l.Account.Ended()})
	}
}

// watch waits until the agent or the borrowing node has left, or ctx ends, and returns the reason.
func (l *Lender) watch(ctx context.Context, node community.NodeID, child community.MemberID) error {
	sub := l.cfg.Community.Subscribe()
	defer sub.Close()
	for {
		ch, err := sub.Next(ctx)
		if err != nil {
			return err
		}
		is := func(id community.MemberID) func(community.Member) bool {
			return func(m community.Member) bool { return m.ID == id }
		}
		switch {
		case ch.Kind == community.Left && ch.Member.ID == child:
			return fmt.Errorf("the agent ended: %s", ch.Why)
		case (ch.Kind == community.Left || ch.Kind == community.BecameUnavailable) && ch.Member.ID == community.MemberID(node):
			return errNodeGone
		case ch.Kind == community.Snapshot, ch.Kind == community.Gap:
			if !slices.ContainsFunc(ch.Members, is(child)) {
				return errors.New("the agent ended")
			}
			i := slices.IndexFunc(ch.Members, is(community.MemberID(node)))
			if ch.Kind == community.Gap && (i < 0 || !ch.Members[i].Available) {
				return errNodeGone
			}
		}
	}
}

// stop terminates an agent in the middle of its task, and waits until it and its descendants have
// ended.
func (l *Lender) stop(ctx context.Context, id community.MemberID) {
	now, cancel := context.WithCancel(context.WithoutCancel(ctx))
	// An ended context makes Terminate not wait for the agent's task.
	cancel()
	if err := l.cfg.Community.Terminate(now, id); err != nil && !errors.Is(err, community.ErrNotFound) {
		l.cfg.Logger.Warn("lent agent not terminated", "agent", id, "err", err)
	}
}
