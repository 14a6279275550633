package lending

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"symbio/agent/budget"
	"symbio/agent/conversation"
	"symbio/agent/tool/peer"
	"symbio/community"
	"symbio/security/permission"
)

// Community is what a Borrower needs of the community that its agent lives in.
type Community interface {
	peer.Community
	Member(id community.MemberID) (community.Member, bool)
	Subscribe() *community.Subscription
}

// Borrower is the community as an agent sees it that may borrow agents of other nodes: a signal to one of those may take as
// long as that lives, and what it took is known when it answers.
type Borrower struct {
	Community
	// Self is the agent.
	Self community.Member
	// Chain returns what the agent's calls are judged by at that moment.
	Chain func() permission.Chain
	// Spent is called when what borrowed agents have spent has changed, Progress with what one says that it does.
	Spent    func()
	Progress func(of community.Member, message string)

	calls sync.WaitGroup // the leases; Go is guarded by mu

	mu       sync.Mutex
	closed   bool                   // guarded by mu
	borrowed map[*Borrowed]struct{} // guarded by mu
}

// Borrowed is a sub-agent on another node, which lent it. It lives as long as the call by which it was spawned.
type Borrowed struct {
	borrower *Borrower
	node     community.Member
	account  *budget.Account
	maxLife  time.Duration
	leased   context.Context    // the call's
	cancel   context.CancelFunc // ends the call; what the node has not reported by then is not known

	known chan struct{} // closed when the node has said who was spawned
	over  chan struct{} // closed when the call is over

	mu       sync.Mutex
	member   community.MemberID // guarded by mu, constant once known is closed
	why      error              // of the end; guarded by mu
	activity string             // what it does, as its node says; guarded by mu
}

// How long the other node has.
const (
	beginTimeout  = 15 * time.Second // to spawn the agent and say who it is; its model may have to be looked for
	memberTimeout = 5 * time.Second  // until the agent is among the members that this node knows
	lifeSlack     = endTimeout + 10*time.Second
)

// lenders returns the nodes that lend agents and can be reached now, by a name or an id; "" = all of them.
func (b *Borrower) lenders(name string) (all []community.Member) {
	for _, m := range b.Members() {
		if m.Available && m.Node != b.Self.Node && m.ID == community.MemberID(m.Node) && slices.Contains(m.Provides, Capability) &&
			(name == "" || name == m.Name || name == string(m.ID)) {
			all = append(all, m)
		}
	}
	return all
}

// DecisiveCall returns the call that decides about a spawn on another node. That is an invocation of the node's capability
// besides, so that rules about those apply, and the stricter verdict counts.
func DecisiveCall(chain permission.Chain, spawn permission.Call) permission.Call {
	invoke := permission.Call{Tool: "invoke_capability", Args: map[string]any{"capability": Capability}, Dir: spawn.Dir, Within: spawn.Within}
	if chain.Judge(invoke).Action < chain.Judge(spawn).Action {
		return invoke
	}
	return spawn
}

// Lender finds a node by its name or id, and checks that it lends such an agent.
func (b *Borrower) Lender(name, definition string) (community.Member, error) {
	found := b.lenders(name)
	switch {
	case len(found) > 1:
		return community.Member{}, fmt.Errorf("%d nodes are called %q: name one by its id", len(found), name)
	case len(found) == 0:
		return community.Member{}, fmt.Errorf("no node %q lends agents; %s", name, b.listLenders())
	}
	if c, ok := b.Capability(found[0].Node, Capability); ok {
		if names := definitionsOf(c.Input); !slices.Contains(names, definition) {
			return community.Member{}, fmt.Errorf("node %s lends no agent %q, but %s: name one of them as agent", found[0].Name, definition, strings.Join(names, ", "))
		}
	}
	return found[0], nil
}

// listLenders says which nodes lend agents, for a model.
func (b *Borrower) listLenders() string {
	var names []string
	for _, m := range b.lenders("") {
		names = append(names, m.Name)
	}
	if len(names) == 0 {
		return "none does now"
	}
	return "these do: " + strings.Join(names, ", ")
}

// Order says which agent is wanted.
type Order struct {
	// Definition is one of those that the node lends.
	Definition string
	Name       string   // of the member
	Reason     string   // why it is needed, for the other node's people
	Tools      []string // that it may use; nil = all that its definition has there
}

// Borrow has a node spawn an agent, and returns when it can be sent signals. The agent's share of the budget is that of
// account, which Borrow takes over: it is closed when the agent is gone, or there never was one.
func (b *Borrower) Borrow(ctx context.Context, node community.Member, account *budget.Account, o Order) (*Borrowed, community.Member, error) {
	limits := account.Granted()
	in := request{Agent: o.Definition, Name: o.Name, Reason: o.Reason, Tools: o.Tools, Share: shareOf(limits), Parent: string(b.Self.ID)}
	s := community.Signal{ContentType: "application/json", Requester: peer.Requester(ctx)}
	var err error
	if s.Data, err = json.Marshal(in); err == nil {
		s.OnBehalf, err = permission.WriteBehalf(b.Chain())
	}
	if err != nil {
		account.Close()
		return nil, community.Member{}, err
	}
	if len(s.Requester) == 0 {
		s.Requester = []string{peer.Address(b.Self)}
	}
	// The call outlives the tool's, and ends with the agent.
	life := max(limits.Wall, 0) + lifeSlack
	leased, cancel := context.WithTimeout(community.WithCallDuration(context.WithoutCancel(ctx), life), life)
	one := &Borrowed{borrower: b, node: node, account: account, maxLife: life, leased: leased, cancel: cancel, known: make(chan struct{}), over: make(chan struct{})}
	sub := b.Subscribe()
	defer sub.Close()
	if err := b.start(one, func() { one.run(leased, s) }); err != nil {
		cancel()
		account.Close()
		return nil, community.Member{}, err
	}
	m, err := one.arrive(ctx, sub)
	if err != nil {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), memberTimeout)
		defer cancel()
		one.Stop(late)
		return nil, community.Member{}, fmt.Errorf("node %s: %w", node.Name, err)
	}
	return one, m, nil
}

// start runs the call of a borrowed agent, unless the Borrower is closed.
func (b *Borrower) start(one *Borrowed, run func()) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return community.ErrStopped
	}
	if b.borrowed == nil {
		b.borrowed = map[*Borrowed]struct{}{}
	}
	b.borrowed[one] = struct{}{}
	b.calls.Go(run)
	return nil
}

// Close ends all borrowed agents, and returns when they have ended. Nothing can be borrowed any more.
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

// find returns the borrowed agent of that id; nil = it is none.
func (b *Borrower) find(id community.MemberID) *Borrowed {
	b.mu.Lock()
	defer b.mu.Unlock()
	for one := range b.borrowed {
		if one.id() == id {
			return one
		}
	}
	return nil
}

// Send sends a signal to a member.
func (b *Borrower) Send(ctx context.Context, to community.MemberID, s community.Signal) (community.Reply, error) {
	one := b.find(to)
	if one == nil {
		return b.Community.Send(ctx, to, s)
	}
	reply, err := b.Community.Send(community.WithCallDuration(ctx, one.maxLife), to, s)
	one.updateSpent(ctx)
	return reply, err
}

// updateSpent asks the lender what has been spent. What it reports by itself may come after an answer.
func (b *Borrowed) updateSpent(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	if reply, err := b.ask(ctx, request{Account: b.id()}); err == nil {
		if u, err := readUpdate(reply.Data); err == nil {
			b.receive(u)
		}
	}
}

// ask sends the lender a request about the agent, beside the call that is the lease.
func (b *Borrowed) ask(ctx context.Context, r request) (community.Reply, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return community.Reply{}, err
	}
	s := community.Signal{Data: data, ContentType: "application/json", Requester: []string{peer.Address(b.borrower.Self)}}
	return b.borrower.InvokeStream(ctx, b.node.ID, Capability, s, nil)
}

// run makes the call that is the lease. It returns when that is over and the account is closed.
func (b *Borrowed) run(ctx context.Context, s community.Signal) {
	defer b.cancel()
	var lines lineReader
	onUpdate := func(u community.Update) {
		if u.Output == nil {
			b.progress(u.Progress)
			return
		}
		updates, err := lines.take(u.Output)
		for _, one := range updates {
			b.receive(one)
		}
		if err != nil {
			b.end(err)
			b.cancel()
		}
	}
	reply, err := b.borrower.InvokeStream(ctx, b.node.ID, Capability, s, onUpdate)
	var final update
	if err == nil {
		final, err = readUpdate(reply.Data)
	}
	b.settle(final, err)
	b.borrower.mu.Lock()
	delete(b.borrower.borrowed, b)
	b.borrower.mu.Unlock()
	close(b.over)
}

// receive handles a line of the lender.
func (b *Borrowed) receive(u update) {
	b.mu.Lock()
	if u.Member != nil && b.member == "" {
		b.member = u.Member.ID
		close(b.known)
	}
	b.mu.Unlock()
	if u.Spent != nil {
		b.account.Report(*u.Spent)
		b.borrower.Spent()
	}
}

// settle closes the account with the lender's last report. Without one the whole share counts as spent; unless the lender
// never named the agent that it spawned, because an agent without a task has spent nothing.
func (b *Borrowed) settle(final update, err error) {
	switch {
	case err == nil && final.Spent != nil:
		b.account.Report(*final.Spent)
		b.account.Close()
		err = errors.New(cmp.Or(final.Why, "it ended"))
	case b.id() == "":
		b.account.Close()
	default:
		b.account.Lost()
	}
	b.borrower.Spent()
	b.end(err)
}

// end sets why the agent is gone; the first reason counts.
func (b *Borrowed) end(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.why == nil {
		b.why = cmp.Or(why, errors.New("its node gave no account of it"))
	}
}

// id returns the member; "" while its node has not said it.
func (b *Borrowed) id() community.MemberID {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.member
}

// Gone returns why the agent is gone; nil while it is not.
func (b *Borrowed) Gone() error {
	select {
	case <-b.over:
	default:
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.why
}

// arrive waits until the lender has said who was spawned, and the agent is among the members.
func (b *Borrowed) arrive(ctx context.Context, sub *community.Subscription) (community.Member, error) {
	begin := time.NewTimer(beginTimeout)
	defer begin.Stop()
	select {
	case <-b.known:
	case <-b.over:
		return community.Member{}, b.Gone()
	case <-begin.C:
		return community.Member{}, fmt.Errorf("%w: it did not say within %v whom it spawned", community.ErrUnavailable, beginTimeout)
	case <-ctx.Done():
		return community.Member{}, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, memberTimeout, fmt.Errorf("%w: the agent that it says it spawned is not among its members", community.ErrUnavailable))
	defer cancel()
	defer context.AfterFunc(b.leased, cancel)()
	id := b.id()
	for {
		ch, err := sub.Next(ctx)
		if why := b.Gone(); why != nil {
			return community.Member{}, why
		}
		if err != nil {
			return community.Member{}, err
		}
		for _, m := range slices.Concat(ch.Members, []community.Member{ch.Member}) {
			if m.ID == id && m.Node == b.node.Node && m.Available && len(m.Accepts) > 0 {
				return m, nil
			}
		}
	}
}

// Stop ends the agent, and returns when that is done. While ctx lasts it waits for the account; then the call is cut, and
// the whole share counts as spent.
func (b *Borrowed) Stop(ctx context.Context) {
	if b.Gone() != nil {
		return // its node need not be asked
	}
	defer func() { <-b.over }()
	defer b.cancel()
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	id := b.id()
	if id == "" {
		return
	}
	if _, err := b.ask(ctx, request{End: id}); err != nil && !errors.Is(err, community.ErrNotFound) {
		return // if it is not found, it has ended, and the account is on its way
	}
	select {
	case <-b.over:
	case <-ctx.Done():
	}
}

// progress handles what the agent's node says that it does.
func (b *Borrowed) progress(p community.Progress) {
	id := b.id()
	if id == "" || p.Message == "" {
		return
	}
	b.mu.Lock()
	b.activity = p.Message
	b.mu.Unlock()
	m, _ := b.borrower.Member(id)
	b.borrower.Progress(community.Member{ID: id, Name: m.Name}, p.Message)
}

// Steer says something to the agent while it works, if its node allows that.
func (b *Borrowed) Steer(ctx context.Context, text string) (r conversation.Receipt, err error) {
	id := b.id()
	data, err := json.Marshal(struct {
		Member community.MemberID `json:"member"`
		Text   string             `json:"text"`
	}{id, text})
	if err != nil {
		return r, err
	}
	s := community.Signal{Data: data, ContentType: "application/json", Requester: peer.Requester(ctx)}
	if s.OnBehalf, err = permission.WriteBehalf(b.borrower.Chain()); err != nil {
		return r, err
	}
	reply, err := b.borrower.InvokeStream(ctx, b.node.ID, "agents.steer", s, nil)
	if err == nil {
		err = json.Unmarshal(reply.Data, &r)
	}
	return r, err
}

// Doing returns what the agent's node said last that it does; "" = nothing yet.
func (b *Borrowed) Doing() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.activity
}
