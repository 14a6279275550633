package session_test

import (
	"testing"

	"symbio/agent/budget"
	"symbio/agent/llm"
	"symbio/agent/session"
)

// A request that the model may have been paid for counts, also if its answer was lost with the node: in
// the entries and in the description of the session alike.
func TestSpentCountsLostAnswers(t *testing.T) {
	request := session.Entry{Kind: session.Request, Usage: &llm.Usage{Input: 100}}
	answer := session.Entry{Kind: session.Answer, Message: &llm.Message{}, Usage: &llm.Usage{Input: 80, Output: 5}}
	task := session.Entry{Kind: session.Task, Message: &llm.Message{Text: "x"}}
	for name, c := range map[string]struct {
		entries []session.Entry
		want    budget.Spent
	}{
		"answered": {[]session.Entry{task, request, answer}, budget.Spent{ModelCalls: 1, Tokens: 85}},
		"open":     {[]session.Entry{task, request}, budget.Spent{ModelCalls: 1, Tokens: 100}},
		"resumed":  {[]session.Entry{task, request, {Kind: session.Resume}, request, answer}, budget.Spent{ModelCalls: 2, Tokens: 185}},
		"left":     {[]session.Entry{task, request, {Kind: session.End, Status: session.Interrupted}}, budget.Spent{ModelCalls: 1, Tokens: 100}},
		"failed":   {[]session.Entry{task, request, {Kind: session.End, Status: session.Failed}, task, request, answer}, budget.Spent{ModelCalls: 2, Tokens: 185}},
		"refused":  {[]session.Entry{task, request, {Kind: session.Report, Usage: &llm.Usage{}}, request, answer}, budget.Spent{ModelCalls: 2, Tokens: 85}},
		"broken":   {[]session.Entry{task, request, {Kind: session.Report, Usage: &llm.Usage{Input: 81}}, request, answer}, budget.Spent{ModelCalls: 2, Tokens: 166}},
		"silent":   {[]session.Entry{task, request, {Kind: session.Answer, Message: &llm.Message{}, Usage: &llm.Usage{}}}, budget.Spent{ModelCalls: 1, Tokens: 100}},
		"spawned":  {[]session.Entry{task, {Kind: session.Child, Child: &session.ChildAgent{}}}, budget.Spent{Agents: 1}},
	} {
		log := session.NewJournal(inMemory(t), "n").Create(session.Info{})
		if err := log.Commit(c.entries...); err != nil {
			t.Fatal(err)
		}
		if got := session.Spent(c.entries); got != c.want {
			t.Errorf("%s: the entries have spent %+v, want %+v", name, got, c.want)
		}
		if got := log.Info().Spent; got != c.want {
			t.Errorf("%s: the session has spent %+v, want %+v", name, got, c.want)
		}
	}
}

// A node that starts looks for approvals that wait, and for tasks that end it each time, in the descriptions alone.
func TestInfoTellsPendingApproval(t *testing.T) {
	call := &llm.ToolCall{ID: "1", Name: "bash"}
	task := session.Entry{Kind: session.Task, Message: &llm.Message{Text: "x"}}
	answer := session.Entry{Kind: session.Answer, Message: &llm.Message{}, Usage: &llm.Usage{}}
	approval, resume := session.Entry{Kind: session.Approval, Call: call}, session.Entry{Kind: session.Resume}
	for name, c := range map[string]struct {
		entries  []session.Entry
		pending  bool
		restarts int
	}{
		"asked":          {[]session.Entry{task, approval}, true, 0},
		"asked, resumed": {[]session.Entry{task, approval, resume, resume}, true, 2},
		"decided":        {[]session.Entry{task, approval, {Kind: session.Decision, Call: call}}, false, 0},
		"started":        {[]session.Entry{task, approval, {Kind: session.Call, Call: call}}, false, 0},
		"refused":        {[]session.Entry{task, approval, {Kind: session.Result, Result: &llm.ToolResult{CallID: "1"}}}, false, 0},
		"answered":       {[]session.Entry{task, resume, resume, answer}, false, 0},
		"next task":      {[]session.Entry{task, approval, resume, task}, false, 0},
		"ended":          {[]session.Entry{task, approval, resume, {Kind: session.End, Status: session.Failed}}, false, 1},
	} {
		log := session.NewJournal(inMemory(t), "n").Create(session.Info{})
		if err := log.Commit(c.entries...); err != nil {
			t.Fatal(err)
		}
		if i := log.Info(); i.Exchange.Pending != c.pending || i.Exchange.Restarts != c.restarts {
			t.Errorf("%s: pending %t after %d restarts, want %t and %d", name, i.Exchange.Pending, i.Exchange.Restarts, c.pending, c.restarts)
		}
		if _, pending := session.PendingApproval(c.entries); pending != c.pending {
			t.Errorf("%s: the entries have a pending approval: %t, want %t", name, pending, c.pending)
		}
	}
}
