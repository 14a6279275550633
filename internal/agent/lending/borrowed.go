package lending

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"symbio/agent/budget"
	"symbio/agent/conversation"
	"symbio/agent/event"
	"symbio/community"
	"symbio/internal/actor/awake"
	"symbio/internal/agent/tool/peer"
	"symbio/security/sandbox"
)

// BorrowedAgent is a sub-agent on another node. It runs as long as the call that spawned it. It
// implements team.Handle.
type BorrowedAgent struct {
	borrower *Borrower
	// node is the lender: the member that stands for the other node.
	node community.Member
	// loan is the agent's share of its parent's budget. settle closes it.
	loan *budget.Loan
	// sandbox is what the lender holds its commands to; nil = nothing.
	sandbox *sandbox.Portable
	// maxLifetime is the Wall of the share and lifeSlack. It also bounds a signal to the agent.
	maxLifetime time.Duration
	// leased is the context of the call that is the lease.
	leased context.Context
	// cancel ends the call. Spending that was not reported until then is unknown; CloseLost bounds it.
	cancel context.CancelFunc

	// identified is closed when the lender has named the member, ended when the call is over and the account is closed.
	identified, ended chan struct{}

	onEvent     func(event.Event) // gets the agent's events; nil = they are not asked for
	requests    lenderRequests
	constraints toldConstraints
	state       lentState
}

// lenderRequests are what the lender of an agent asks for.
type lenderRequests struct {
	// questions are those that a person is asked; open has the functions that end them, by id. answered
	// are the answers with "always", by what was asked. asked counts them all; only run uses it.
	questions, places errgroup.Group // places gives the lender places
	open, answered    sync.Map
	asked             int
}

// toldConstraints are the constraints of the parent that a lender knows.
type toldConstraints struct {
	// telling has an element while the lender is told what the parent is held to; its capacity is 1. told
	// and toldPlan are what the lender knows; guarded by telling.
	telling  chan struct{}
	told     []byte
	toldPlan bool
	aside    errgroup.Group // tells the lender what the parent is held to now
}

// lentState is what is known of an agent that is lent.
type lentState struct {
	mu sync.Mutex
	// member is constant once identified is closed; guarded by mu.
	member community.MemberID
	// endReason is why the lease ended; guarded by mu.
	endReason error
	// activity is what the lender reported last, denied how many denied calls it told; guarded by mu.
	activity string
	denied   int
	// skills are the parent's, which are constant, and omitted the ones that the lender says are not
	// active; guarded by mu.
	skills  []Skill
	omitted []OmittedSkill
}

// errOtherSandbox refuses a task.
var errOtherSandbox = errors.New("other sandbox limits hold for this task than those with which the agent was spawned on its node: spawn another for it")

// updateSpent asks the lender for the spending so far, because the lender's own reports may arrive
// after a reply. After an error it waits a moment for the final report, or for the reason why there is none.
func (b *BorrowedAgent) updateSpent(ctx context.Context) {
	ctx, cancel := awake.Clock{}.WithTimeoutCause(ctx, memberTimeout, nil)
	defer cancel()
	reply, err := b.ask(ctx, request{Account: b.id()})
	if err != nil {
		select {
		case <-b.ended:
		case <-ctx.Done():
		}
		return
	}
	if u, err := readUpdate(reply.Data); err == nil {
		b.receive(u)
	}
}

// ask sends the lender a request about the agent, in a call of its own.
func (b *BorrowedAgent) ask(ctx context.Context, r request) (community.Reply, error) {
	return b.askOnBehalf(ctx, r, nil)
}

// askOnBehalf is ask with the encoded constraints behalf.
func (b *BorrowedAgent) askOnBehalf(ctx context.Context, r request, behalf []byte) (community.Reply, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return community.Reply{}, err
	}
	s := community.Signal{Data: data, ContentType: "application/json", Requester: []string{peer.Address(b.borrower.Self)}, OnBehalf: behalf}
	return b.borrower.InvokeStream(ctx, b.node.ID, Capability, s, nil)
}

// run makes the call that is the lease. It returns when the call has ended and the account is
// closed. It runs in a goroutine of Borrower.calls. A malformed line ends the call.
func (b *BorrowedAgent) run(ctx context.Context, s community.Signal) {
	defer b.cancel()
	asking, endQuestions := context.WithCancel(ctx)
	defer endQuestions()
	b.requests.questions.SetLimit(2 * maxQuestions) // withdrawn ones may still end
	b.constraints.aside.SetLimit(1)
	b.requests.places.SetLimit(maxQuestions)
	var lines lineReader
	pace := rate.NewLimiter(lineRate, lineBurst)
	onUpdate := func(u community.Update) {
		if u.Output == nil {
			b.progress(u.Progress)
			return
		}
		updates, err := lines.push(u.Output)
		for _, one := range updates {
			if pace.Wait(asking) != nil {
				return // the lease ends
			}
			b.receive(one)
			b.relay(one.Events)
			b.withdraw(one.Withdrawn)
			if one.Question != nil && err == nil {
				err = b.question(asking, *one.Question)
			}
			if one.Place != "" && err == nil {
				err = b.place(asking, one.Place)
			}
		}
		if err != nil {
			b.end(err)
			b.cancel()
		}
		b.checkConstraints(asking)
	}
	reply, err := b.borrower.InvokeStream(ctx, b.node.ID, Capability, s, onUpdate)
	endQuestions()
	_, _, _ = b.requests.questions.Wait(), b.constraints.aside.Wait(), b.requests.places.Wait() // nothing in them returns an error
	var final update
	if err == nil {
		final, err = readUpdate(reply.Data)
	}
	// The order matters: the account is closed and the agent removed before ended is closed, on
	// which Stop waits.
	b.settle(final, err)
	b.borrower.mu.Lock()
	delete(b.borrower.borrowed, b)
	b.borrower.mu.Unlock()
	close(b.ended)
}

// receive handles one update of the lender. Only the first member counts: a lender cannot replace
// the agent later. Report does not trust the number (package budget).
func (b *BorrowedAgent) receive(u update) {
	b.state.mu.Lock()
	if u.Member != nil && b.state.member == "" {
		b.state.member, b.state.omitted = u.Member.ID, u.Member.Omitted
		close(b.identified)
	}
	denied := u.Denied[min(b.state.denied, len(u.Denied)):]
	b.state.denied += len(denied)
	b.state.mu.Unlock()
	for _, q := range denied {
		b.borrower.Owner().Denied(b.node, q)
	}
	b.loan.EndedElsewhere(u.Ended)
	if u.Spent != nil {
		b.borrower.Owner().Spent(b.loan.Report(*u.Spent))
	}
}

// ErrLost is wrapped by the reason why a borrowed agent ended whose node did not report its end.
// Nothing is known of its work.
var ErrLost = errors.New("it is lost, because its node did not report its end")

// settle closes the account with the lender's last report. Without a report it counts what may have
// been spent since the latest one (budget.CloseLost). If the lender never named an agent, nothing counts: that agent got no task,
// so it spent nothing, but it may live, unless the lender says that there is none.
func (b *BorrowedAgent) settle(final update, err error) {
	var more budget.Spent
	switch {
	case err == nil && final.Spent != nil:
		more = b.loan.Report(*final.Spent)
		b.loan.CloseEnded(final.Ended)
		err = errors.New(cmp.Or(final.Why, "it ended"))
	case b.id() == "" && err == nil:
		b.loan.Account.Close()
		err = community.Explain(community.ErrUnavailable, cmp.Or(final.Why, "it did not spawn the agent"))
	case b.id() == "" && (community.NotBegun(err) || errors.Is(err, community.ErrInvalid)):
		b.loan.Account.Close()
	case b.id() == "":
		b.loan.CloseUnknown()
	default:
		s := b.loan.Account.Total()
		more = b.loan.CloseLost()
		err = fmt.Errorf("%w; it had reported %d model calls and %d tokens, and up to %d and %d more count as spent: %w",
			ErrLost, s.ModelCalls, s.Tokens, more.ModelCalls, more.Tokens, cmp.Or(err, community.ErrUnavailable))
	}
	b.borrower.Owner().Spent(more)
	b.end(err)
}

// end records why the lease ended. The first reason counts.
func (b *BorrowedAgent) end(why error) {
	b.state.mu.Lock()
	defer b.state.mu.Unlock()
	if b.state.endReason == nil {
		b.state.endReason = cmp.Or(why, errors.New("its node did not report what it spent"))
	}
}

// id returns the member's id; "" until the lender has named it.
func (b *BorrowedAgent) id() community.MemberID {
	b.state.mu.Lock()
	defer b.state.mu.Unlock()
	return b.state.member
}

// Gone returns why the agent has ended; nil while the lease lasts.
func (b *BorrowedAgent) Gone() error {
	select {
	case <-b.ended:
	default:
		return nil
	}
	b.state.mu.Lock()
	defer b.state.mu.Unlock()
	return b.state.endReason
}

// OnEnd calls f when the lease has ended, in a goroutine of its own.
func (b *BorrowedAgent) OnEnd(f func()) { context.AfterFunc(b.leased, f) }

// OmittedSkills returns a sentence for the model of the parent about the ones of its skills that are not
// active for the agent; "" = all are, or it has none.
func (b *BorrowedAgent) OmittedSkills() string {
	b.state.mu.Lock()
	defer b.state.mu.Unlock()
	return explainSkills(b.state.skills, b.state.omitted)
}

// awaitMember waits until the lender has named the agent and this node sees it as an available
// member. A member of another node than the lender is not accepted.
func (b *BorrowedAgent) awaitMember(ctx context.Context, sub *community.Subscription) (community.Member, error) {
	begin, done := awake.Clock{}.WithTimeoutCause(ctx, spawnTimeout, fmt.Errorf("%w: it did not name the spawned agent within %v", community.ErrUnavailable, spawnTimeout))
	defer done()
	select {
	case <-b.identified:
	case <-b.ended:
		return community.Member{}, b.Gone()
	case <-begin.Done():
		return community.Member{}, context.Cause(begin)
	}
	ctx, cancel := awake.Clock{}.WithTimeoutCause(ctx, memberTimeout, fmt.Errorf("%w: the agent that it says it spawned is not among its members", community.ErrUnavailable))
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

// Stop stops the agent and returns when the lease has ended. It waits for the lender's report until
// ctx ends or endTimeout has passed; then it ends the call, and the agent counts as lost. It
// may be called more than once, by any goroutine.
func (b *BorrowedAgent) Stop(ctx context.Context) {
	if b.Gone() != nil {
		return // its node need not be asked
	}
	defer func() { <-b.ended }()
	defer b.cancel()
	ctx, cancel := awake.Clock{}.WithTimeoutCause(ctx, endTimeout, nil)
	defer cancel()
	id := b.id()
	// An agent without an id cannot be named to the lender. The deferred cancel ends its call.
	if id == "" {
		return
	}
	if _, err := b.ask(ctx, request{End: id}); err != nil && !errors.Is(err, community.ErrNotFound) {
		// ErrNotFound means that the agent has ended and its final report is on the way. After any
		// other error, no report is expected.
		return
	}
	select {
	case <-b.ended:
	case <-ctx.Done():
	}
}

// progress passes an activity that the lender reported to the Borrower.
func (b *BorrowedAgent) progress(p community.Progress) {
	id := b.id()
	if id == "" || p.Message == "" {
		return
	}
	b.state.mu.Lock()
	b.state.activity = p.Message
	b.state.mu.Unlock()
	m, _ := b.borrower.Member(id)
	b.borrower.Owner().Progress(community.Member{ID: id, Name: m.Name}, p.Message)
}

// Steer delivers a text to the agent while it works, with the lender's capability agents.steer. The
// lender's rules decide whether this node may do that. It blocks until the delivery is known.
func (b *BorrowedAgent) Steer(ctx context.Context, text string) (r conversation.Receipt, err error) {
	data, _ := json.Marshal(map[string]any{"member": b.id(), "text": text}) // of strings it cannot fail
	s := community.Signal{Data: data, ContentType: "application/json", Requester: peer.Requester(ctx)}
	if s.OnBehalf, err = b.borrower.Owner().Constraints(ctx); err != nil {
		return r, err
	}
	reply, err := b.borrower.InvokeStream(ctx, b.node.ID, "agents.steer", s, nil)
	if err == nil {
		err = json.Unmarshal(reply.Data, &r)
	}
	return r, err
}

// Activity returns the activity that the lender reported last; "" = none yet.
func (b *BorrowedAgent) Activity() string {
	b.state.mu.Lock()
	defer b.state.mu.Unlock()
	return b.state.activity
}
