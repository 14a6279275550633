package lending

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/actor/awake"
	"symbio/internal/security/lazyregexp"
	"symbio/internal/security/visible"
)

// Approvals says who decides the calls of a lent agent that need a person.
type Approvals string

// The zero Approvals is AskBorrower.
const (
	AskBorrower Approvals = "borrower" // the person of the agent that borrows it
	AskHere     Approvals = "here"     // a person of the node that lends it
	AskBoth     Approvals = "both"     // both have to say yes
)

const (
	// maxQuestions is how many questions of one lease wait at once; maxAsked is how many it has in all,
	// so that a lender cannot fill the list of a person for ever.
	maxQuestions, maxAsked = 16, 1000
	// maxDiff bounds the difference that a question shows, in bytes.
	maxDiff = 64 << 10
	// maxDenied is how many denied calls of a lease are told, maxDeniedArgs what one shows of its arguments, in bytes.
	maxDenied, maxDeniedArgs = 16, 4 << 10
)

// Question is a call of a lent agent, or of a descendant, that the borrower's person has to decide. A
// lender's word proves nothing of it: the answer has no effect but on the lender's node.
type Question struct {
	ID string `json:"id"`
	// Name is the name of the agent that makes the call.
	Name string         `json:"name"`
	Tool string         `json:"tool"`
	Args map[string]any `json:"args"`
	// Rule and Why say why a person is needed, Diff what an edit would change.
	Rule string `json:"rule,omitempty"`
	Why  string `json:"why"`
	Diff string `json:"diff,omitempty"`
	// Once is set if an answer holds for this call alone.
	Once bool `json:"once,omitempty"`
}

// answer is the borrower's answer to a Question, or to update.Place.
type answer struct {
	Member   community.MemberID `json:"member"` // the lent agent
	Question string             `json:"question"`
	Allow    bool               `json:"allow,omitempty"`
	By       string             `json:"by,omitempty"`
	// Reason is why the person said no; Why is why no person did.
	Reason string `json:"reason,omitempty"`
	Why    string `json:"why,omitempty"`
}

var toolName = lazyregexp.New(`^[A-Za-z][A-Za-z0-9_.-]{0,127}$`)

// check bounds the texts of a question and makes them printable. The error says what is no question.
func (q *Question) check() error {
	if len(q.ID) > 64 || !toolName().MatchString(q.Tool) {
		return errors.New("what it asks is no question")
	}
	q.Name, q.Rule, q.Why, q.Diff = visible.Line(q.Name, 128), visible.Line(q.Rule, maxReason), visible.Line(q.Why, maxReason), visible.Truncate(q.Diff, maxDiff)
	return nil
}

// Deny denies a call of the lent agent, or of a descendant, that no person was asked about or answered, and keeps it for
// the borrower, whose task may not be done. why is a sentence.
func (l *Lease) Deny(q Question, why string) tool.Answer {
	args := map[string]any{}
	for name, value := range q.Args {
		if text, is := value.(string); is {
			args[name] = visible.Truncate(text, 200)
		}
	}
	if data, err := json.Marshal(args); err != nil || len(data) > maxDeniedArgs {
		args = nil
	}
	l.link.deniedMu.Lock()
	defer l.link.deniedMu.Unlock()
	if len(l.link.denied) < maxDenied {
		l.link.denied = append(l.link.denied, Question{Name: q.Name, Tool: q.Tool, Args: args, Rule: q.Rule, Why: why})
	}
	return tool.Answer{Why: why}
}

// reported returns what was spent so far, and which calls were denied.
func (l *Lease) reported() update {
	l.link.deniedMu.Lock()
	defer l.link.deniedMu.Unlock()
	return update{Spent: new(l.Account.Total()), Ended: l.Account.Ended(), Denied: slices.Clone(l.link.denied)}
}

// Ask puts a question of the lent agent, or of a descendant, to the borrower and blocks until the
// answer. Without one in time, at the end of ctx or of the lease, and if too many questions wait, it
// denies the call (Deny).
func (l *Lease) Ask(ctx context.Context, q Question) tool.Answer {
	q.ID, q.Diff = rand.Text(), visible.Truncate(q.Diff, maxDiff)
	asks := update{Question: &q}
	if line, err := asks.line(); err != nil || len(line) > maxLine {
		return l.Deny(q, "It is too long to be put to a person of another node, so it is denied.")
	}
	defer l.link.waiting.Add(-1)
	if l.link.waiting.Add(1) > maxQuestions {
		return l.Deny(q, tooMany)
	}
	a, err := l.link.await(ctx, asks, q.ID, l.link.askTimeout)
	switch {
	case errors.Is(err, errQueue):
		return l.Deny(q, tooMany)
	case err != nil:
		return l.Deny(q, tool.Unanswered(err))
	}
	return a
}

const tooMany = "Too many calls wait for a person already, so it is denied. Try again later."

// errQueue is the error of await if the borrower does not read.
var errQueue = errors.New("the node where the task came from does not read what it is asked")

// await sends the borrower an update that asks something, and blocks until the answer. The error says why
// there is none: no answer in time, the end of ctx or of the lease, or errQueue.
func (l *borrowerLink) await(ctx context.Context, asks update, id string, timeout time.Duration) (tool.Answer, error) {
	answered := make(chan tool.Answer, 1)
	l.open.Store(id, answered)
	defer l.open.Delete(id)
	if !l.tell(asks) {
		return tool.Answer{}, errQueue
	}
	ctx, cancel := awake.Clock{}.WithTimeoutCause(ctx, timeout, fmt.Errorf("the node where the task came from did not answer within %v", timeout))
	defer cancel()
	why := errNodeGone
	select {
	case a := <-answered:
		return a, nil
	case <-l.done:
	case <-ctx.Done():
		why = context.Cause(ctx)
	}
	if _, open := l.open.LoadAndDelete(id); !open { // the borrower knows that it has answered
		return <-answered, nil
	}
	l.tell(update{Withdrawn: id})
	return tool.Answer{}, why
}

// tell queues an update for the borrower, and returns false if the queue is full.
func (l *borrowerLink) tell(u update) bool {
	select {
	case l.updates <- u:
		return true
	default:
		return false
	}
}

// answer gives a question the borrower's answer. It returns false if the question is not open.
func (l *borrowerLink) answer(a answer) bool {
	c, open := l.open.LoadAndDelete(a.Question)
	if open { // the channel has room for the one answer
		c.(chan tool.Answer) <- tool.Answer{Allow: a.Allow, By: "the node where the task came from: " + visible.Line(a.By, 128),
			Reason: visible.Line(a.Reason, maxReason), Why: visible.Line(a.Why, maxReason)}
	}
	return open
}

// withdraw ends a question that needs no answer any more.
func (b *BorrowedAgent) withdraw(id string) {
	if cancel, open := b.requests.open.Load(id); open {
		cancel.(context.CancelFunc)()
	}
}

// question puts a question to the borrowing agent in the background; ctx ends with the lease. The
// error says that the lender asks more than a lender may, or before it has named the agent. Without the
// answer, as when its message is lost, the lender denies the call when its time is over.
func (b *BorrowedAgent) question(ctx context.Context, q Question) error {
	ctx, cancel := context.WithCancel(ctx)
	_, twice := b.requests.open.LoadOrStore(q.ID, cancel)
	b.requests.asked++
	if twice || b.requests.asked > maxAsked || b.id() == "" || !b.requests.questions.TryGo(func() error {
		defer cancel()
		defer b.requests.open.Delete(q.ID)
		a := b.decide(ctx, q)
		_, _ = b.ask(ctx, request{Answer: &answer{
			Member: b.id(), Question: q.ID, Allow: a.Allow, By: visible.Truncate(a.By, 128), Reason: visible.Truncate(a.Reason, maxReason),
			Why: visible.Truncate(a.Why, maxReason),
		}})
		return nil
	}) {
		cancel()
		return errors.New("it asks too many questions")
	}
	return nil
}

// decide returns the answer to a question: the answer to an earlier one with "always", which holds as long
// as the agent lives, else the person's.
func (b *BorrowedAgent) decide(ctx context.Context, q Question) tool.Answer {
	key, err := json.Marshal(Question{Name: q.Name, Tool: q.Tool, Args: q.Args, Rule: q.Rule, Why: q.Why})
	if a, known := b.requests.answered.Load(string(key)); known {
		return a.(tool.Answer)
	}
	a := b.borrower.Owner().Ask(ctx, b.node, b.id(), q)
	if a.Always && !q.Once && err == nil {
		b.requests.answered.Store(string(key), a)
	}
	return a
}
