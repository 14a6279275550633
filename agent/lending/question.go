package lending

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"symbio/agent/tool"
	"symbio/community"
	"symbio/security/visible"
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

// answer is the borrower's answer to a Question.
type answer struct {
	Member   community.MemberID `json:"member"` // the lent agent
	Question string             `json:"question"`
	Allow    bool               `json:"allow,omitempty"`
	By       string             `json:"by,omitempty"`
	// Reason is why the person said no; Why is why no person did.
	Reason string `json:"reason,omitempty"`
	Why    string `json:"why,omitempty"`
}

var toolName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,127}$`)

// check bounds the texts of a question and makes them printable. The error says what is no question.
func (q *Question) check() error {
	if q.ID == "" || len(q.ID) > 64 || !toolName.MatchString(q.Tool) {
		return errors.New("what it asks is no question")
	}
	q.Name, q.Rule, q.Why, q.Diff = visible.Line(q.Name, 128), visible.Line(q.Rule, maxReason), visible.Line(q.Why, maxReason), visible.Truncate(q.Diff, maxDiff)
	return nil
}

// questions are the open questions of a lease. They are safe for concurrent use.
type questions struct {
	mu   sync.Mutex
	open map[string]chan tool.Answer // each has the capacity 1; guarded by mu
}

// add opens a question. It returns nil if too many are open.
func (o *questions) add(id string) chan tool.Answer {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.open) >= maxQuestions {
		return nil
	}
	if o.open == nil {
		o.open = map[string]chan tool.Answer{}
	}
	o.open[id] = make(chan tool.Answer, 1)
	return o.open[id]
}

// remove closes a question and returns where its answer goes; nil if it is not open.
func (o *questions) remove(id string) chan tool.Answer {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.open[id]
	delete(o.open, id)
	return c
}

// Ask puts a question of the lent agent, or of a descendant, to the borrower and blocks until the
// answer. Without one in time, at the end of ctx or of the lease, and if too many questions wait, the
// answer is a no with the reason.
func (l *Lease) Ask(ctx context.Context, q Question) tool.Answer {
	q.ID = rand.Text()
	line, err := update{Question: &q}.line()
	if err == nil && len(line) > maxLine {
		q.Diff = ""
		line, err = update{Question: &q}.line()
	}
	if err != nil || len(line) > maxLine {
		return tool.Answer{Why: "It is too long to be put to a person of another node, so it is denied."}
	}
	answered := l.questions.add(q.ID)
	if answered == nil || !l.tell(update{Question: &q}) {
		l.questions.remove(q.ID)
		return tool.Answer{Why: "Too many calls wait for a person already, so it is denied. Try again later."}
	}
	defer l.questions.remove(q.ID)
	ctx, cancel := context.WithTimeoutCause(ctx, l.askTimeout, fmt.Errorf("the node where the task came from did not answer within %v", l.askTimeout))
	defer cancel()
	why := errNodeGone
	select {
	case a := <-answered:
		return a
	case <-l.done:
	case <-ctx.Done():
		why = context.Cause(ctx)
		l.tell(update{Withdrawn: q.ID})
	}
	return tool.Answer{Why: fmt.Sprintf("It was denied, because %v.", why)}
}

// tell queues an update for the borrower, and returns false if the queue is full.
func (l *Lease) tell(u update) bool {
	select {
	case l.updates <- u:
		return true
	default:
		return false
	}
}

// answer gives a question the borrower's answer. It returns false if the question is not open.
func (l *Lease) answer(a answer) bool {
	c := l.questions.remove(a.Question)
	if c == nil {
		return false
	}
	c <- tool.Answer{Allow: a.Allow, By: "the node where the task came from: " + visible.Line(a.By, 128), Reason: visible.Line(a.Reason, maxReason), Why: visible.Line(a.Why, maxReason)}
	return true
}

// receivedQuestions are the questions that a borrowed agent asks of its borrower. The zero value is ready for use.
type receivedQuestions struct {
	running sync.WaitGroup

	mu       sync.Mutex
	count    int                           // of all questions; guarded by mu
	open     map[string]context.CancelFunc // guarded by mu
	answered map[string]tool.Answer        // those with "always", by what was asked; guarded by mu
}

// key is equal for two questions about the same call for the same reason.
func (q Question) key() string {
	q.ID, q.Diff = "", ""
	data, err := json.Marshal(q)
	if err != nil {
		return ""
	}
	return string(data)
}

// withdraw ends a question that needs no answer any more.
func (b *BorrowedAgent) withdraw(id string) {
	b.questions.mu.Lock()
	defer b.questions.mu.Unlock()
	if cancel := b.questions.open[id]; cancel != nil {
		cancel()
	}
}

// question puts a question to the borrowing agent in the background; ctx ends with the lease. The
// error says that the lender asks more than a lender may, or before it has named the agent.
func (b *BorrowedAgent) question(ctx context.Context, q Question) error {
	named := b.id() != ""
	b.questions.mu.Lock()
	defer b.questions.mu.Unlock()
	if b.questions.count++; !named || b.questions.open[q.ID] != nil || len(b.questions.open) >= 2*maxQuestions || b.questions.count > maxAsked { // twice: withdrawn ones may still end
		return errors.New("it asks too many questions")
	}
	if b.questions.open == nil {
		b.questions.open, b.questions.answered = map[string]context.CancelFunc{}, map[string]tool.Answer{}
	}
	ctx, cancel := context.WithCancel(ctx)
	b.questions.open[q.ID] = cancel
	b.questions.running.Go(func() {
		defer cancel()
		a := b.decide(ctx, q)
		b.questions.mu.Lock()
		delete(b.questions.open, q.ID)
		b.questions.mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, memberTimeout)
		defer cancel()
		// Without the answer the lender denies the call when its time is over.
		_, _ = b.ask(ctx, request{Answer: &answer{Member: b.id(), Question: q.ID, Allow: a.Allow, By: visible.Truncate(a.By, 128), Reason: visible.Truncate(a.Reason, maxReason), Why: visible.Truncate(a.Why, maxReason)}})
	})
	return nil
}

// decide returns the answer to a question: that of an earlier one with "always", which holds as long
// as the agent lives, else the person's.
func (b *BorrowedAgent) decide(ctx context.Context, q Question) tool.Answer {
	key := q.key()
	b.questions.mu.Lock()
	a, known := b.questions.answered[key]
	b.questions.mu.Unlock()
	if known {
		return a
	}
	a = b.borrower.Ask(ctx, b.node, b.id(), q)
	if a.Always && !q.Once && key != "" {
		b.questions.mu.Lock()
		b.questions.answered[key] = a
		b.questions.mu.Unlock()
	}
	return a
}

// defaultAskTimeout is how long a question waits for its answer.
const defaultAskTimeout = 10 * time.Minute
