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

	"symbio/agent/conversation"
	"symbio/agent/tool/peer"
	"symbio/community"
	"symbio/security/permission"
)

// borrowed is a sub-agent that lives on another node, which lent it. It lives as long as the call by which it was
// spawned.
type borrowed struct {
	life    *life // the parent's
	node    community.Member
	account *account
	most    time.Duration      // that it may live
	leased  context.Context    // the call's
	cut     context.CancelFunc // ends it, and whatever the node has not said by then is not known

	known chan struct{} // closed when the node has said who was spawned
	over  chan struct{} // closed when the call is over

	mu     sync.Mutex
	member community.MemberID // guarded by mu, constant once known is closed
	why    error              // of the end; guarded by mu
	said   string             // what it does, as its node says; guarded by mu
}

// How long the other node has.
const (
	loanBegin = 15 * time.Second // to spawn the agent and say who it is; its model may have to be looked for
	loanSeen  = 5 * time.Second  // until the agent is among the members that this node knows
	loanSlack = loanEnd + 10*time.Second
)

// lenders are the nodes that lend agents and can be reached now, by a name or an id; with "" all of them.
func (l *life) lenders(name string) (all []community.Member) {
	for _, m := range l.factory.cfg.Community.Members() {
		if m.Available && m.Node != l.self.Node && m.ID == community.MemberID(m.Node) && slices.Contains(m.Provides, SpawnCapability) &&
			(name == "" || name == m.Name || name == string(m.ID)) {
			all = append(all, m)
		}
	}
	return all
}

// judged is the verdict of a chain about a call.
func judged(chain permission.Chain, c permission.Call) permission.Verdict {
	return chain.Judge(decisive(chain, c))
}

// decisive is the call that decides about a call, which is that itself, as a rule. To spawn an agent on another node is
// an invocation of its capability besides, so that rules about those speak of it, and the stricter verdict counts.
func decisive(chain permission.Chain, c permission.Call) permission.Call {
	node := c.Args["node"]
	if c.Tool != "replicate_agent" || node == nil || node == "" {
		return c
	}
	there := permission.Call{Tool: "invoke_capability", Args: map[string]any{"capability": SpawnCapability}, Dir: c.Dir, Within: c.Within}
	if chain.Judge(there).Action < chain.Judge(c).Action {
		return there
	}
	return c
}

// lender finds the node that a model means, and checks that it lends such an agent, and that nobody denies it to the
// agent, or to those that it works for, to spawn there.
func (l *life) lender(name, agent string) (community.Member, error) {
	call := permission.Call{Tool: "replicate_agent", Args: map[string]any{"agent": agent, "node": name}, Dir: l.factory.cfg.Dir}
	if v := judged(l.chain(), call); v.Action == permission.Deny {
		return community.Member{}, fmt.Errorf("you may not spawn agents on other nodes: %s", v.Why)
	}
	found := l.lenders(name)
	switch {
	case len(found) > 1:
		return community.Member{}, fmt.Errorf("%d nodes are called %q: name one by its id", len(found), name)
	case len(found) == 0:
		return community.Member{}, fmt.Errorf("no node %q lends agents; %s", name, l.whoLends())
	}
	if c, ok := l.factory.cfg.Community.Capability(found[0].Node, SpawnCapability); ok {
		if names := loanAgents(c.Input); !slices.Contains(names, agent) {
			return community.Member{}, fmt.Errorf("node %s lends no agent %q, but %s: name one of them as agent", found[0].Name, agent, strings.Join(names, ", "))
		}
	}
	return found[0], nil
}

// whoLends says which nodes lend agents, for a model.
func (l *life) whoLends() string {
	var names []string
	for _, m := range l.lenders("") {
		names = append(names, m.Name)
	}
	if len(names) == 0 {
		return "none does now"
	}
	return "these do: " + strings.Join(names, ", ")
}

// borrow has a node spawn an agent, and returns when it can be sent signals. Its share of the budget is that of account,
// which borrow closes when the agent is gone, or there never was one.
func (l *life) borrow(ctx context.Context, node community.Member, account *account, in loanRequest) (*borrowed, community.Member, error) {
	limits := account.granted()
	in.Share, in.Parent = share(limits), string(l.self.ID)
	s := community.Signal{ContentType: "application/json", Requester: peer.Requester(ctx)}
	var err error
	if s.Data, err = json.Marshal(in); err == nil {
		s.OnBehalf, err = permission.WriteBehalf(l.chain())
	}
	if err != nil {
		account.close()
		return nil, community.Member{}, err
	}
	if len(s.Requester) == 0 {
		s.Requester = []string{l.address()}
	}
	// The call outlives the tool's, and ends with the agent.
	most := max(limits.Wall, 0) + loanSlack
	leased, cut := context.WithTimeout(community.Lasting(context.WithoutCancel(ctx), most), most)
	b := &borrowed{life: l, node: node, account: account, most: most, leased: leased, cut: cut, known: make(chan struct{}), over: make(chan struct{})}
	sub := l.factory.cfg.Community.Subscribe()
	defer sub.Close()
	if err := l.undertake(b, func() { b.run(leased, s) }); err != nil {
		cut()
		account.close()
		return nil, community.Member{}, err
	}
	m, err := b.arrive(ctx, sub)
	if err != nil {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), loanSeen)
		defer cancel()
		b.stop(late)
		return nil, community.Member{}, fmt.Errorf("node %s: %w", node.Name, err)
	}
	return b, m, nil
}

// undertake has run run as a part of the agent's life, unless that has ended.
func (l *life) undertake(b *borrowed, run func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return community.ErrStopped
	}
	if l.borrowed == nil {
		l.borrowed = map[*borrowed]struct{}{}
	}
	l.borrowed[b] = struct{}{}
	l.leases.Go(run)
	return nil
}

// lentTo is the agent that it has borrowed of that id; nil = it is none.
func (l *life) lentTo(id community.MemberID) *borrowed {
	l.mu.Lock()
	defer l.mu.Unlock()
	for b := range l.borrowed {
		if b.who() == id {
			return b
		}
	}
	return nil
}

// patience is the community as an agent's tools see it: an agent that it has borrowed may take as long for a signal as
// it lives, and what that took is known when it answers.
type patience struct {
	Community
	life *life
}

// Send is that of the community.
func (p patience) Send(ctx context.Context, to community.MemberID, s community.Signal) (community.Reply, error) {
	b := p.life.lentTo(to)
	if b == nil {
		return p.Community.Send(ctx, to, s)
	}
	reply, err := p.Community.Send(community.Lasting(ctx, b.most), to, s)
	b.audit(ctx)
	return reply, err
}

// audit asks the lender what has been spent. What it says by itself comes another way than an answer, perhaps later.
func (b *borrowed) audit(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, loanSeen)
	defer cancel()
	if reply, err := b.ask(ctx, loanRequest{Account: b.who()}); err == nil {
		if u, err := readUpdate(reply.Data); err == nil {
			b.hear(u)
		}
	}
}

// ask says something about the agent to its lender, beside the call that it is.
func (b *borrowed) ask(ctx context.Context, r loanRequest) (community.Reply, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return community.Reply{}, err
	}
	s := community.Signal{Data: data, ContentType: "application/json", Requester: []string{b.life.address()}}
	return b.life.factory.cfg.Community.InvokeStream(ctx, b.node.ID, SpawnCapability, s, nil)
}

// endBorrowed ends the agent's sub-agents on other nodes, and waits until their calls are over.
func (l *life) endBorrowed(ctx context.Context) {
	l.mu.Lock()
	var all []*borrowed
	for b := range l.borrowed {
		all = append(all, b)
	}
	l.mu.Unlock()
	var ending sync.WaitGroup
	for _, b := range all {
		ending.Go(func() { b.stop(ctx) })
	}
	ending.Wait()
	l.leases.Wait()
}

// run is the call. It returns when that is over, and the account is closed.
func (b *borrowed) run(ctx context.Context, s community.Signal) {
	defer b.cut()
	c := b.life.factory.cfg.Community
	var lines loanLines
	heard := func(u community.Update) {
		if u.Output == nil {
			b.progress(u.Progress)
			return
		}
		said, err := lines.take(u.Output)
		for _, one := range said {
			b.hear(one)
		}
		if err != nil {
			b.end(err)
			b.cut()
		}
	}
	reply, err := c.InvokeStream(ctx, b.node.ID, SpawnCapability, s, heard)
	var final loanUpdate
	if err == nil {
		final, err = readUpdate(reply.Data)
	}
	b.settle(final, err)
	b.life.mu.Lock()
	delete(b.life.borrowed, b)
	b.life.mu.Unlock()
	close(b.over)
}

// hear takes a line of the lender.
func (b *borrowed) hear(u loanUpdate) {
	b.mu.Lock()
	if u.Member != nil && b.member == "" {
		b.member = u.Member.ID
		close(b.known)
	}
	b.mu.Unlock()
	if u.Spent != nil {
		b.account.report(u.Spent.said())
		b.life.lease().spends()
	}
}

// settle closes the account with what the lender says in the end. Of one that says nothing, everything that it was given
// counts as spent; unless it never said whom it spawned, because who was given no task has spent nothing.
func (b *borrowed) settle(final loanUpdate, err error) {
	switch {
	case err == nil && final.Spent != nil:
		b.account.report(final.Spent.said())
		b.account.close()
		err = errors.New(cmp.Or(final.Why, "it ended"))
	case b.who() == "":
		b.account.close()
	default:
		b.account.lost()
	}
	b.life.lease().spends()
	b.end(err)
}

// end notes why the agent is gone; the first reason counts.
func (b *borrowed) end(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.why == nil {
		b.why = cmp.Or(why, errors.New("its node gave no account of it"))
	}
}

func (b *borrowed) who() community.MemberID {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.member
}

// gone is why the agent is gone, nil while it is not.
func (b *borrowed) gone() error {
	select {
	case <-b.over:
	default:
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.why
}

// arrive waits until the lender has said who was spawned, and that one is among the members.
func (b *borrowed) arrive(ctx context.Context, sub *community.Subscription) (community.Member, error) {
	begin := time.NewTimer(loanBegin)
	defer begin.Stop()
	select {
	case <-b.known:
	case <-b.over:
		return community.Member{}, b.gone()
	case <-begin.C:
		return community.Member{}, fmt.Errorf("%w: it did not say within %v whom it spawned", community.ErrUnavailable, loanBegin)
	case <-ctx.Done():
		return community.Member{}, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, loanSeen, fmt.Errorf("%w: the agent that it says it spawned is not among its members", community.ErrUnavailable))
	defer cancel()
	defer context.AfterFunc(b.leased, cancel)()
	id := b.who()
	for {
		ch, err := sub.Next(ctx)
		if why := b.gone(); why != nil {
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

// stop ends the agent, and returns when that is done. As long as ctx lasts it waits for the account; then the call is
// cut, and all of the share counts as spent.
func (b *borrowed) stop(ctx context.Context) {
	defer func() { <-b.over }()
	defer b.cut()
	ctx, cancel := context.WithTimeout(ctx, loanEnd)
	defer cancel()
	id := b.who()
	if id == "" {
		return
	}
	if _, err := b.ask(ctx, loanRequest{End: id}); err != nil && !errors.Is(err, community.ErrNotFound) {
		return // if it is not found, it has ended, and the account is on its way
	}
	select {
	case <-b.over:
	case <-ctx.Done():
	}
}

// progress shows what the agent does as what it says of itself.
func (b *borrowed) progress(p community.Progress) {
	id := b.who()
	if id == "" || p.Message == "" {
		return
	}
	b.mu.Lock()
	b.said = p.Message
	b.mu.Unlock()
	m, _ := b.life.factory.cfg.Community.Member(id)
	b.life.factory.cfg.Report(Event{Type: EventProgress, Agent: id, Name: m.Name, Parent: b.life.self.ID, Text: p.Message})
}

// steer says something to the agent while it works, if its node lets this one.
func (b *borrowed) steer(ctx context.Context, text string) (r conversation.Receipt, err error) {
	id := b.who()
	data, err := json.Marshal(struct {
		Member community.MemberID `json:"member"`
		Text   string             `json:"text"`
	}{id, text})
	if err != nil {
		return r, err
	}
	s := community.Signal{Data: data, ContentType: "application/json", Requester: peer.Requester(ctx)}
	if s.OnBehalf, err = b.life.held(true); err != nil {
		return r, err
	}
	reply, err := b.life.factory.cfg.Community.InvokeStream(ctx, b.node.ID, "agents.steer", s, nil)
	if err == nil {
		err = json.Unmarshal(reply.Data, &r)
	}
	return r, err
}

// doing is what the agent's node said of it last.
func (b *borrowed) doing() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.said
}

// spawnOn is spawn on another node.
func (a *Agent) spawnOn(ctx context.Context, w wanted) (*child, error) {
	l := a.life
	definition := cmp.Or(w.definition, l.def.Name)
	node, err := l.lender(w.node, definition)
	if err != nil {
		return nil, err
	}
	account, err := l.account.open(w.share, true)
	if err != nil {
		return nil, err
	}
	b, m, err := l.borrow(ctx, node, account, loanRequest{Agent: definition, Name: cmp.Or(w.name, l.nextName()), Reason: w.reason, Tools: w.keep})
	if err != nil {
		return nil, err
	}
	c := &child{member: m, hand: b, account: account}
	l.mu.Lock()
	l.raise(c)
	l.mu.Unlock()
	a.report(Event{Type: EventSpawned, Member: m.ID, Text: w.reason})
	return c, nil
}
