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
	"time"

	"symbio/agent/budget"
	"symbio/agent/definition"
	"symbio/agent/tool/peer"
	"symbio/community"
	"symbio/security/permission"
)

// LenderConfig sets up a Lender.
type LenderConfig struct {
	Community Members
	// Spawn makes the agent of a lease, which has to keep to it. community.ErrBusy, ErrStopped and ErrUnavailable reach the
	// borrower as they are; any other error is taken for one of the agent's name.
	Spawn func(ctx context.Context, l *Lease) (community.Member, error)
	// Definitions are those that are lent. Default: none.
	Definitions []definition.Definition
	// Limits are what each may use at most, with all that it spawns.
	Limits budget.Limits
	// Max is how many may live at a time, PerNode how many of them one node may have; one more is ErrBusy. What they
	// spawn counts in their own limits. Defaults 8 and 4: each is an agent with a model, and a node has more than one
	// borrower.
	Max, PerNode int
	// Life is how long one may live at most. Default: the Wall of its limits.
	Life time.Duration
	// Logger gets what goes wrong at the end of an agent. Default: silent.
	Logger *slog.Logger
}

// Members is what a Lender needs of the community that its agents live in.
type Members interface {
	Member(id community.MemberID) (community.Member, bool)
	Subscribe() *community.Subscription
	Terminate(ctx context.Context, id community.MemberID) error
}

// Lender lends agents of this node to agents of others: it provides Capability. A lent agent is held to this node's policy
// and to what its parent is held to, and has at most the share that it is given, as far as this node lends as much.
type Lender struct {
	cfg LenderConfig

	mu     sync.Mutex
	leases map[*Lease]struct{} // guarded by mu
}

// Lease is one agent that is lent, and what it has to keep to.
type Lease struct {
	Definition definition.Definition
	// Name of the member.
	Name string
	// Tools are those that it may use; nil = all that its definition has.
	Tools []string
	// Account is what it pays from, with all that it spawns.
	Account *budget.Account
	// Node is the borrower; Parent its member there, "" = no particular one.
	Node   community.NodeID
	Parent community.MemberID
	// Constraints are what those are held to, as their node says, for whom it was spawned. They are part of the chain of the
	// agent and of all its descendants as long as they live.
	Constraints permission.Chain
	// Life is how long it may live.
	Life time.Duration

	end    context.CancelCauseFunc
	report func(community.Progress)
	spent  chan struct{}      // capacity 1: something has been spent
	member community.MemberID // "" until it is spawned; guarded by Lender.mu
}

// Requesters returns the members and nodes that the agent works for, as in a signal.
func (l *Lease) Requesters() []string {
	if l.Parent == "" {
		return []string{string(l.Node)}
	}
	return []string{string(l.Node), string(l.Node) + "/" + string(l.Parent)}
}

// Progress tells the borrower what the agent or one of its descendants does. It does nothing on a nil Lease.
func (l *Lease) Progress(message string) {
	if l != nil {
		l.report(community.Progress{Message: message})
	}
}

// SpentChanged has the borrower told soon what is spent. It does nothing on a nil Lease.
func (l *Lease) SpentChanged() {
	if l == nil {
		return
	}
	select {
	case l.spent <- struct{}{}:
	default: // it is about to be told
	}
}

// NewLender returns a Lender.
func NewLender(cfg LenderConfig) *Lender {
	cfg.Max, cfg.PerNode = cmp.Or(cfg.Max, 8), cmp.Or(cfg.PerNode, 4)
	cfg.Limits = cfg.Limits.WithDefaults()
	cfg.Life = cmp.Or(cfg.Life, cfg.Limits.Wall)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Lender{cfg: cfg, leases: map[*Lease]struct{}{}}
}

// Life returns how long a call may last: as long as an agent may live, and it takes to end it.
func (l *Lender) Life() time.Duration { return l.cfg.Life + endTimeout }

// endTimeout is how long the end of an agent and its descendants may take.
const endTimeout = 30 * time.Second

// Capability returns what the Lender offers.
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

// Has reports whether the member is lent to that node, which then may send it signals.
func (l *Lender) Has(node community.NodeID, member community.MemberID) bool {
	return l.find(node, member) != nil
}

func (l *Lender) find(node community.NodeID, member community.MemberID) *Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := range l.leases {
		if n.Node == node && n.member == member && member != "" {
			return n
		}
	}
	return nil
}

// Provide answers a call; it is a community.Provider. It returns when what it has spawned has ended.
func (l *Lender) Provide(ctx context.Context, s community.Signal) (community.Reply, error) {
	if len(s.Requester) == 0 {
		return community.Reply{}, invalid("nobody calls")
	}
	node := community.NodeID(s.Requester[0])
	in, err := readRequest(s.Data)
	if err != nil {
		return community.Reply{}, invalid("the request: %v", err)
	}
	if id := cmp.Or(in.End, in.Account); id != "" {
		n := l.find(node, id)
		switch {
		case n == nil:
			return community.Reply{}, community.ErrNotFound
		case in.End != "": // the call that it was lent by answers with the account
			n.end(errEnded)
			return community.Reply{Data: []byte("true"), ContentType: "application/json"}, nil
		}
		return replyOf(update{Spent: new(n.Account.Total())})
	}
	if !community.HasListener(ctx) {
		return community.Reply{}, invalid("who calls has to listen to what is said ahead of the answer, since that is who was spawned")
	}
	n, err := l.lease(in, s)
	if err != nil {
		return community.Reply{}, err
	}
	leased, end := context.WithCancelCause(ctx)
	defer end(nil)
	n.end = end
	if err := l.add(n); err != nil {
		return community.Reply{}, err
	}
	defer l.remove(n)
	why, err := l.lend(leased, n)
	switch {
	case err != nil:
		return community.Reply{}, err
	case ctx.Err() != nil:
		return community.Reply{}, context.Cause(ctx) // the caller is gone
	}
	return replyOf(update{Spent: new(n.Account.Total()), Why: why.Error()})
}

func replyOf(u update) (community.Reply, error) {
	data, err := json.Marshal(u)
	return community.Reply{Data: data, ContentType: "application/json"}, err
}

// lease returns the lease that a request asks for.
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
	account := budget.New(l.cfg.Limits.Within(in.Share.limits()).Within(d.Budget))
	n := &Lease{
		Definition: d, Name: cmp.Or(in.Name, d.Name), Tools: in.Tools, Account: account,
		Node: community.NodeID(s.Requester[0]), Parent: community.MemberID(in.Parent), Constraints: constraints,
		Life: min(l.cfg.Life, account.Wall()), spent: make(chan struct{}, 1),
	}
	if n.Life <= 0 {
		return nil, invalid("its share has no time")
	}
	return n, nil
}

func (l *Lender) add(n *Lease) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := 0
	for other := range l.leases {
		if other.Node == n.Node {
			of++
		}
	}
	switch {
	case of >= l.cfg.PerNode:
		return community.Explain(community.ErrBusy, fmt.Sprintf("%d agents are lent to that node already, which is all that one may have", of))
	case len(l.leases) >= l.cfg.Max:
		return community.Explain(community.ErrBusy, fmt.Sprintf("%d agents are lent already, which is all", len(l.leases)))
	}
	l.leases[n] = struct{}{}
	return nil
}

func (l *Lender) remove(n *Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.leases, n)
}

// Why a lease ends.
var (
	errEnded    = errors.New("its parent ended it")
	errTime     = errors.New("the time for which it was lent is over")
	errNodeGone = errors.New("its parent's node is gone")
)

// lend has the agent live until ctx, the lease, ends, and returns why that was. With an error there never was an agent.
func (l *Lender) lend(ctx context.Context, n *Lease) (why, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, n.Life, errTime)
	defer cancel()
	n.report = func(p community.Progress) { community.Report(ctx, p) }
	m, err := l.cfg.Spawn(ctx, n)
	switch {
	case errors.Is(err, community.ErrBusy), errors.Is(err, community.ErrStopped), errors.Is(err, community.ErrUnavailable):
		return nil, err
	case err != nil:
		return nil, invalid("the agent's name: %.100q", n.Name)
	}
	defer l.stop(ctx, m.ID)
	l.mu.Lock()
	n.member = m.ID
	l.mu.Unlock()
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { n.end(l.watch(ctx, n.Node, m.ID)) })
	n.stream(ctx, m)
	return context.Cause(ctx), nil
}

// stream tells the borrower who was spawned, and what is spent whenever that has changed, until ctx ends.
func (l *Lease) stream(ctx context.Context, m community.Member) {
	send := func(u update) {
		line, err := u.line()
		if err == nil {
			err = community.Emit(ctx, line, "application/x-ndjson")
		}
		if err != nil {
			l.end(err)
		}
	}
	send(update{Member: &spawned{ID: m.ID, Name: m.Name, Accepts: m.Accepts}})
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.spent:
			send(update{Spent: new(l.Account.Total())})
		}
	}
}

// watch waits until the agent or the node that has it is gone, or ctx ends, and says why.
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

// stop ends an agent now, whatever it is doing, and waits until it and its descendants are gone.
func (l *Lender) stop(ctx context.Context, id community.MemberID) {
	now, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cancel() // what it is doing is not waited for
	if err := l.cfg.Community.Terminate(now, id); err != nil && !errors.Is(err, community.ErrNotFound) {
		l.cfg.Logger.Warn("lent agent not terminated", "agent", id, "err", err)
	}
}
