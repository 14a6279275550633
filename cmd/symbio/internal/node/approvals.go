package node

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"symbio/agent"
	"symbio/agent/tool"
	symbiov1 "symbio/proto/symbio/v1"
)

// mostApprovals is how many decisions may wait at a time: more than people answer. The next one is denied at
// once.
const mostApprovals = 256

// approvals are the decisions that wait for a person. Any terminal that is attached, and `symbio approvals`,
// may answer; each is answered once. What nobody answers in time, and whose task ends, is a denial.
type approvals struct {
	timeout time.Duration

	mu      sync.Mutex
	last    uint64              // guarded by mu
	waiting map[string]*waiting // guarded by mu
}

// waiting is one of them.
type waiting struct {
	asked    agent.Asked
	begun    time.Time
	deadline time.Time
	answer   chan tool.Answer // capacity 1
}

// approvalEvent is what is told of a decision that waits.
type approvalEvent struct {
	ID       string         `json:"id"`
	Name     string         `json:"name"`
	For      []string       `json:"for,omitempty"`
	Tool     string         `json:"tool"`
	Args     map[string]any `json:"args"`
	Why      string         `json:"why"`
	Deadline time.Time      `json:"deadline"`
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
	id, w := a.enter(asked)
	if w == nil {
		return tool.Answer{Why: "Too many decisions wait for a person already, so it is denied."}
	}
	events.Publish("approval", asked.Agent, approvalEvent{id, asked.Name, asked.For, asked.Tool, asked.Shown(), asked.Verdict.Why, w.deadline})
	var answer tool.Answer
	select {
	case answer = <-w.answer:
	case <-ctx.Done():
		answer.Why = fmt.Sprintf("It was denied, because %v.", context.Cause(ctx))
	}
	a.leave(id)
	events.Publish("answered", asked.Agent, answeredEvent{id, answer.Allow, answer.By, answer.Why})
	return answer
}

func (a *approvals) enter(asked agent.Asked) (string, *waiting) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) >= mostApprovals {
		return "", nil
	}
	a.last++
	if a.waiting == nil {
		a.waiting = map[string]*waiting{}
	}
	now := time.Now()
	w := &waiting{asked: asked, begun: now, deadline: now.Add(a.timeout), answer: make(chan tool.Answer, 1)}
	id := strconv.FormatUint(a.last, 10)
	a.waiting[id] = w
	return id, w
}

func (a *approvals) leave(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, id)
}

// answer decides what waits under id; false when nothing does.
func (a *approvals) answer(id string, answer tool.Answer) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	w, ok := a.waiting[id]
	delete(a.waiting, id)
	if ok {
		w.answer <- answer // capacity 1, and only the one that took it out of the map sends
	}
	return ok
}

// list is what waits, the longest first.
func (a *approvals) list() []*symbiov1.Approval {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []*symbiov1.Approval
	for id, w := range a.waiting {
		args, err := json.Marshal(w.asked.Shown())
		if err != nil {
			args = nil
		}
		v := w.asked.Verdict
		all = append(all, &symbiov1.Approval{
			Id: id, Agent: w.asked.Agent, Name: w.asked.Name, For: w.asked.For, Tool: w.asked.Tool, Args: args,
			Rule: v.Rule, Why: v.Why, Asked: timestamppb.New(w.begun), Deadline: timestamppb.New(w.deadline),
		})
	}
	slices.SortFunc(all, func(x, y *symbiov1.Approval) int {
		return cmp.Or(x.GetAsked().AsTime().Compare(y.GetAsked().AsTime()), cmp.Compare(len(x.GetId()), len(y.GetId())), cmp.Compare(x.GetId(), y.GetId()))
	})
	return all
}
