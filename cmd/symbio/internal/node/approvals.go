package node

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"symbio/agent"
	"symbio/agent/tool"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/permission"
)

// mostApprovals is how many decisions may wait at a time: more than people answer. The next one is denied at
// once.
const mostApprovals = 256

// errOther says that an answer is about something else than what waits.
var errOther = errors.New("what waits is not what was shown")

// approvals are the decisions that wait for a person. Any terminal that is attached, and `symbio approvals`
// here and on nodes that may, can answer; each is answered once. What nobody answers in time, and whose task
// ends, is a denial.
type approvals struct {
	timeout time.Duration
	node    string // this node's id
	// keep keeps what would allow a decision from now on, before it is answered.
	keep func(w *waiting, by string) error

	mu      sync.Mutex
	last    uint64              // guarded by mu
	waiting map[string]*waiting // guarded by mu
}

// waiting is one of them. What is shown of it never changes.
type waiting struct {
	sheet
	lasting []permission.Granted // what Rules says
	answer  chan tool.Answer     // capacity 1
}

// approvalEvent is what is told of a decision that waits.
type approvalEvent struct {
	ID     string `json:"id"`
	Digest string `json:"digest"`
	// The event has a node and an agent of its own: a line of JSON is not to say them twice.
	Node  string `json:"node,omitempty"`
	Agent string `json:"agent,omitempty"`
	shown
}

// answeredEvent is what became of it.
type answeredEvent struct {
	ID    string `json:"id"`
	Allow bool   `json:"allow"`
	By    string `json:"by,omitempty"`
	Why   string `json:"why,omitempty"`
}

// ask announces a decision as an event and waits for its answer, for the time that it may wait, or for the
// end of the task.
func (a *approvals) ask(ctx context.Context, events *Events, asked agent.Asked) tool.Answer {
	ctx, cancel := context.WithTimeoutCause(ctx, a.timeout, fmt.Errorf("nobody answered within %v", a.timeout))
	defer cancel()
	w, why := a.enter(asked)
	if w == nil {
		return tool.Answer{Why: why}
	}
	events.Publish("approval", asked.Agent, approvalEvent{ID: w.id, Digest: w.digest, shown: w.shown})
	var answer tool.Answer
	select {
	case answer = <-w.answer:
	case <-ctx.Done():
		answer.Why = fmt.Sprintf("It was denied, because %v.", context.Cause(ctx))
	}
	a.leave(w.id)
	events.Publish("answered", asked.Agent, answeredEvent{w.id, answer.Allow, answer.By, answer.Why})
	return answer
}

// enter has a decision wait; why says why it cannot.
func (a *approvals) enter(asked agent.Asked) (w *waiting, why string) {
	args, err := json.Marshal(asked.Shown())
	if err != nil {
		return nil, fmt.Sprintf("It cannot be shown to a person, so it is denied: %v.", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) >= mostApprovals {
		return nil, "Too many decisions wait for a person already, so it is denied."
	}
	a.last++
	now := time.Now()
	s, err := newSheet(shown{
		Nonce: rand.Text(), Number: a.last, Node: a.node, Agent: asked.Agent, Name: asked.Name, For: asked.For, Tool: asked.Tool, Args: args,
		Rule: asked.Verdict.Rule, Why: asked.Verdict.Why, Rules: rulesOf(asked), Asked: now.UTC(), Deadline: now.Add(a.timeout).UTC(),
	})
	if err != nil {
		return nil, fmt.Sprintf("It cannot be shown to a person, so it is denied: %v.", err)
	}
	if a.waiting == nil {
		a.waiting = map[string]*waiting{}
	}
	w = &waiting{sheet: s, lasting: asked.Lasting, answer: make(chan tool.Answer, 1)}
	a.waiting[w.id] = w
	return w, ""
}

func (a *approvals) leave(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, id)
}

// answer decides what waits under id, and returns what that was; nil when nothing does. digest is that of what
// the person was shown; "" is for who got it from here. errOther, and it goes on waiting, when it is not that; so
// it does when what is to last cannot be kept. That writes to a file, under the lock: people are slower.
func (a *approvals) answer(id, digest string, answer tool.Answer) (*sheet, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w, ok := a.waiting[id]
	if !ok {
		return nil, nil
	}
	if digest != "" && digest != w.digest {
		return nil, errOther
	}
	if answer.Lasting {
		if len(w.lasting) == 0 || a.keep == nil {
			return nil, errNotLasting
		}
		if err := a.keep(w, answer.By); err != nil {
			return nil, err
		}
	}
	delete(a.waiting, id)
	answer.By = forHowLong(answer)
	w.answer <- answer // capacity 1, and only the one that took it out of the map sends
	return &w.sheet, nil
}

// forHowLong says who answered, and for how long.
func forHowLong(a tool.Answer) string {
	switch {
	case a.Lasting:
		return a.By + ", from now on"
	case a.Always:
		return a.By + ", always"
	}
	return a.By
}

// errNotLasting says that a decision is for once, or for the session.
var errNotLasting = errors.New("no rule can allow exactly this from now on; it can be allowed once, or with --always while the agent lives")

// list is what waits, the longest first; with an id that one.
func (a *approvals) list(id string) []*symbiov1.Approval {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []*symbiov1.Approval
	for _, w := range a.waiting {
		if id == "" || id == w.id {
			all = append(all, w.wire())
		}
	}
	sortApprovals(all)
	return all
}

func sortApprovals(all []*symbiov1.Approval) {
	slices.SortStableFunc(all, func(x, y *symbiov1.Approval) int {
		return cmp.Or(x.GetAsked().AsTime().Compare(y.GetAsked().AsTime()), cmp.Compare(len(x.GetId()), len(y.GetId())), cmp.Compare(x.GetId(), y.GetId()))
	})
}
