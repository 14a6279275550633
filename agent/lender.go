package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"symbio/community"
	"symbio/security/permission"
)

// LenderConfig sets up a Lender.
type LenderConfig struct {
	Factory *Factory
	// Definitions are those that are lent. Default: none.
	Definitions []Definition
	// Order says how each is made: its Policy, Limits and Ask. The rest of it is not looked at.
	Order Order
	// Max is how many may live at a time, PerNode how many of them one node may have; one more is ErrBusy. What they
	// spawn counts in their own Limits. Defaults 8 and 4: each is an agent with a model, and a node has more than one
	// borrower.
	Max, PerNode int
	// Life is how long one may live at most. Default: the Wall of its limits.
	Life time.Duration
}

// Lender lends agents of this node to agents of others: it answers SpawnCapability. A call is a lease. The agent
// that it spawns lives until the call ends, or its time is over, or the calling node is gone, whatever comes first, and
// what it has spawned ends with it. It is held to this node's policy and to what its parent is held to, and has at most
// the share that it is given, as far as this node lends as much.
//
// Everything that another node says is a claim: it can only narrow. A Lender is safe for concurrent use.
type Lender struct {
	cfg LenderConfig

	mu   sync.Mutex
	lent map[*loan]struct{} // guarded by mu
}

// loan is one agent that is lent.
type loan struct {
	node    community.NodeID
	end     context.CancelCauseFunc
	spender *account
	member  community.MemberID // "" until it is spawned; guarded by Lender.mu
}

// NewLender returns a Lender.
func NewLender(cfg LenderConfig) *Lender {
	cfg.Max, cfg.PerNode = cmp.Or(cfg.Max, 8), cmp.Or(cfg.PerNode, 4)
	cfg.Order.Limits = cfg.Order.Limits.withDefaults()
	cfg.Life = cmp.Or(cfg.Life, cfg.Order.Limits.Wall)
	return &Lender{cfg: cfg, lent: map[*loan]struct{}{}}
}

// Life is how long a call may last: as long as an agent may live, and it ends.
func (l *Lender) Life() time.Duration { return l.cfg.Life + loanEnd }

// loanEnd is how long the end of an agent and its descendants may take.
const loanEnd = 30 * time.Second

// Capability is what the Lender offers.
func (l *Lender) Capability() (community.Capability, error) {
	var names []string
	for _, d := range l.cfg.Definitions {
		names = append(names, d.Name)
	}
	input, err := loanSchema(names)
	return community.Capability{
		Name: SpawnCapability, Input: input,
		Description: "Spawns a sub-agent here for an agent of another node, which has it with replicate_agent: " + strings.Join(names, ", ") +
			". It ends with the call.",
	}, err
}

// Has reports whether the member was lent to that node, which then may send it signals.
func (l *Lender) Has(node community.NodeID, member community.MemberID) bool {
	return l.find(node, member) != nil
}

func (l *Lender) find(node community.NodeID, member community.MemberID) *loan {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := range l.lent {
		if n.node == node && n.member == member && member != "" {
			return n
		}
	}
	return nil
}

// Provide answers a call; it is a community.Provider. It returns when what it has spawned has ended.
func (l *Lender) Provide(ctx context.Context, s community.Signal) (community.Reply, error) {
	if len(s.Requester) == 0 {
		return community.Reply{}, errLoan("nobody calls")
	}
	node := community.NodeID(s.Requester[0])
	in, err := readLoan(s.Data)
	if err != nil {
		return community.Reply{}, errLoan("the request: %v", err)
	}
	switch {
	case in.End != "":
		return l.finish(node, in.End)
	case in.Account != "":
		return l.account(node, in.Account)
	}
	if !community.Listened(ctx) {
		return community.Reply{}, errLoan("who calls has to listen to what is said ahead of the answer, since that is who was spawned")
	}
	child, err := l.child(in, s)
	if err != nil {
		return community.Reply{}, err
	}
	leased, end := context.WithCancelCause(ctx)
	defer end(nil)
	n := &loan{node: node, end: end, spender: child.account}
	if err := l.enter(n); err != nil {
		return community.Reply{}, err
	}
	defer l.leave(n)
	why, err := l.lend(leased, n, child, cmp.Or(in.Name, child.def.Name))
	switch {
	case err != nil:
		return community.Reply{}, err
	case ctx.Err() != nil:
		return community.Reply{}, context.Cause(ctx) // nobody hears it
	}
	data, err := json.Marshal(loanUpdate{Spent: new(child.account.total()), Why: why.Error()})
	return community.Reply{Data: data, ContentType: "application/json"}, err
}

// finish ends a loan of that node. The call that it is answers with the account.
func (l *Lender) finish(node community.NodeID, member community.MemberID) (community.Reply, error) {
	n := l.find(node, member)
	if n == nil {
		return community.Reply{}, community.ErrNotFound
	}
	n.end(errAsked)
	return community.Reply{Data: []byte("true"), ContentType: "application/json"}, nil
}

// account says what an agent that is lent to that node has spent so far.
func (l *Lender) account(node community.NodeID, member community.MemberID) (community.Reply, error) {
	n := l.find(node, member)
	if n == nil {
		return community.Reply{}, community.ErrNotFound
	}
	data, err := json.Marshal(loanUpdate{Spent: new(n.spender.total())})
	return community.Reply{Data: data, ContentType: "application/json"}, err
}

// child is the life of an agent that is to be lent.
func (l *Lender) child(in loanRequest, s community.Signal) (*life, error) {
	i := slices.IndexFunc(l.cfg.Definitions, func(d Definition) bool { return d.Name == in.Agent })
	if i < 0 {
		return nil, community.Explain(community.ErrNotFound, fmt.Sprintf("this node lends no agent %.64q", in.Agent))
	}
	fence, err := guestsOf(s)
	if err != nil {
		return nil, err
	}
	if m, known := l.cfg.Factory.cfg.Community.Member(community.MemberID(in.Parent)); known && string(m.Node) != s.Requester[0] {
		return nil, errLoan("the parent is another node's")
	}
	o := l.cfg.Order
	o.Definition, o.Limits, o.ForLife = l.cfg.Definitions[i], o.Limits.Within(in.Share.limits()), true
	child := l.cfg.Factory.first(o)
	child.keep = in.Tools
	child.lent = &lent{
		node: community.NodeID(s.Requester[0]), parent: community.MemberID(in.Parent), fence: fence,
		life: min(l.cfg.Life, child.account.wall), spent: make(chan struct{}, 1),
	}
	if child.lent.life <= 0 {
		return nil, errLoan("its share has no time")
	}
	return child, nil
}

func (l *Lender) enter(n *loan) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := 0
	for other := range l.lent {
		if other.node == n.node {
			of++
		}
	}
	switch {
	case of >= l.cfg.PerNode:
		return community.Explain(community.ErrBusy, fmt.Sprintf("%d agents are lent to that node already, which is all that one may have", of))
	case len(l.lent) >= l.cfg.Max:
		return community.Explain(community.ErrBusy, fmt.Sprintf("%d agents are lent already, which is all", len(l.lent)))
	}
	l.lent[n] = struct{}{}
	return nil
}

func (l *Lender) leave(n *loan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.lent, n)
}

// Why a loan ends.
var (
	errAsked    = errors.New("its parent ended it")
	errTime     = errors.New("the time for which it was lent is over")
	errNodeGone = errors.New("its parent's node is gone")
)

// lend has the agent live until ctx, the lease, ends, whatever ends it, and returns why that was. An error says that
// there never was an agent.
func (l *Lender) lend(ctx context.Context, n *loan, child *life, name string) (why, err error) {
	f := l.cfg.Factory
	model, err := f.cfg.Model(ctx, child.def.Model)
	if err != nil {
		f.cfg.Logger.Warn("the model of a lent agent", "agent", child.def.Name, "err", err)
		return nil, community.Explain(community.ErrUnavailable, "its model cannot be opened there now")
	}
	if _, err := boundsOf(child.def, f.cfg.Dir); err != nil {
		f.cfg.Logger.Warn("the definition of a lent agent", "agent", child.def.Name, "err", err)
		return nil, community.Explain(community.ErrUnavailable, "its definition cannot be kept there now")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, child.lent.life, errTime)
	defer cancel()
	child.using(model).lent.tell = func(p community.Progress) { community.Report(ctx, p) }
	m, err := f.begin(ctx, name, child, community.WithMaxCall(child.lent.life))
	switch {
	case errors.Is(err, community.ErrBusy), errors.Is(err, community.ErrStopped):
		return nil, err
	case err != nil:
		return nil, errLoan("the agent's name: %.100q", name)
	}
	defer l.stop(ctx, m.ID)
	l.mu.Lock()
	n.member = m.ID
	l.mu.Unlock()
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { n.end(l.watch(ctx, n.node, m.ID)) })
	l.tell(ctx, n, child, m)
	return context.Cause(ctx), nil
}

// tell tells the borrower who was spawned, and what is spent whenever that has changed, until ctx ends.
func (l *Lender) tell(ctx context.Context, n *loan, child *life, m community.Member) {
	say := func(u loanUpdate) {
		line, err := u.line()
		if err == nil {
			err = community.Emit(ctx, line, "application/x-ndjson")
		}
		if err != nil {
			n.end(err)
		}
	}
	say(loanUpdate{Member: &loanMember{ID: m.ID, Name: m.Name, Accepts: m.Accepts}})
	for {
		select {
		case <-ctx.Done():
			return
		case <-child.lent.spent:
			say(loanUpdate{Spent: new(child.account.total())})
		}
	}
}

// watch waits until the agent or the node that has it is gone, or ctx ends, and says why.
func (l *Lender) watch(ctx context.Context, node community.NodeID, child community.MemberID) error {
	sub := l.cfg.Factory.cfg.Community.Subscribe()
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

// stop ends an agent now, whatever it is doing, and waits until it and its descendants are gone.
func (l *Lender) stop(ctx context.Context, id community.MemberID) {
	now, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cancel() // what it is doing is not waited for
	f := l.cfg.Factory
	if err := f.cfg.Community.Terminate(now, id); err != nil && !errors.Is(err, community.ErrNotFound) {
		f.cfg.Logger.Warn("lent agent not terminated", "agent", id, "err", err)
	}
}

// lent is what is special about the life of an agent that is lent: the rest of it is as any first agent's.
type lent struct {
	node   community.NodeID
	parent community.MemberID // "" = nobody in particular
	// fence is what those are held to, as their node says, for whom it was spawned. It is part of the chain of the agent
	// and of all its descendants as long as they live.
	fence permission.Chain
	life  time.Duration
	tell  func(community.Progress)
	spent chan struct{} // capacity 1: something has been spent
}

// whose are the requesters that the agent is lent to.
func (l *lent) whose() []string {
	if l.parent == "" {
		return []string{string(l.node)}
	}
	return []string{string(l.node), string(l.node) + "/" + string(l.parent)}
}

// master names whose sub-agent it is, for its model; "" = nobody's.
func (l *life) master() string {
	switch {
	case l.parent != nil:
		return l.parent.self.Name
	case l.lent != nil && l.lent.parent != "":
		return strings.Join(l.strangers(l.lent.whose()), ", ") + ", on another node"
	}
	return ""
}

// tellBorrower tells the node to which an agent is lent what it and its descendants are doing, and spend.
func (l *life) tellBorrower(e Event) {
	lent := l.lease()
	if lent == nil {
		return
	}
	switch e.Type {
	case EventCall:
		lent.tell(community.Progress{Message: e.Name + " asks for " + e.Tool})
	case EventTurn, EventSpawned, EventDone, EventFailed:
		lent.spends()
	}
}

// lease is what is special about the life if it is of an agent that is lent, or of a descendant of one; nil if not.
func (l *life) lease() *lent {
	for l.parent != nil {
		l = l.parent
	}
	return l.lent
}

// spends has the borrower told soon what is spent. It does nothing to nil.
func (l *lent) spends() {
	if l == nil {
		return
	}
	select {
	case l.spent <- struct{}{}:
	default: // it is about to be
	}
}

// overThere is an error of a task as who gave it reads it. Of one of another node only that would be left that the agent
// failed; that it reached a limit is no secret, and what it has done so far is for them.
func overThere(s community.Signal, err error) error {
	var over *OverBudget
	if stranger(s) == "" || !errors.As(err, &over) {
		return err
	}
	return community.Explain(community.ErrAgentFailed, over.Error())
}
