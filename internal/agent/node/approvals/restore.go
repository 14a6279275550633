package approvals

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"symbio/agent"
	"symbio/agent/event"
	"symbio/agent/session"
	"symbio/agent/tool"
)

// Ask asks a person about a call and waits for the answer, as Queue.Ask does.
type Ask func(context.Context, agent.ApprovalRequest) tool.Answer

// restoration is what a request has whose node ended while it waited.
type restoration struct {
	session, call string // the ids
	answered      func()
	answer        tool.Answer // set when it was answered
}

// Restore lists a request again that waited for its answer when the node ended:
// entry is its session.Approval in the session s. The request has no deadline,
// because no call waits for it. Its answer calls answered, which has to go on
// with the session and must not use the Queue; when the agent asks about the
// call, Ask and AskAnswered return the answer. The error says why the request
// cannot be shown.
func (d *Queue) Restore(s session.Info, entry session.Entry, answered func()) error {
	args, err := json.Marshal(json.RawMessage(entry.Call.Args)) // the same bytes that add makes of the arguments
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.pending) >= maxPending {
		return fmt.Errorf("%d calls wait already", maxPending)
	}
	r, err := d.number(content{Agent: s.Member, Name: s.Name, Tool: entry.Call.Name, Args: args, Why: entry.Text, Asked: entry.Time.UTC()})
	if err != nil {
		return err
	}
	delete(d.answered, s.ID) // an answer that had no effect
	d.pending[r.id] = &pendingRequest{shown: r, restored: &restoration{session: s.ID, call: entry.Call.ID, answered: answered}}
	d.cfg.Events.Publish(r.event(""))
	return nil
}

// Withdraw removes the restored requests of a session, because an agent goes on
// with it and asks anew.
func (d *Queue) Withdraw(session string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, w := range d.pending {
		if w.restored != nil && w.restored.session == session {
			delete(d.pending, id)
			d.cfg.Events.Publish(event.Event{Type: event.TypeAnswered, Agent: w.shown.Agent, Why: "its task goes on and asks again",
				Part: event.Answer{ID: id}})
		}
	}
}

// takeAnswer returns the answer to a restored request. It returns it at most
// once: when the agent of the session asks about the call for the first time,
// with the tool, the arguments and the reason that the person was shown.
func (d *Queue) takeAnswer(asked agent.ApprovalRequest) (answer tool.Answer, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.answered[asked.Session]
	if w == nil || asked.CallID != w.restored.call {
		return answer, false
	}
	delete(d.answered, asked.Session)
	args, err := json.Marshal(asked.Shown())
	ok = err == nil && asked.Tool == w.shown.Tool && asked.Verdict.Why == w.shown.Why && bytes.Equal(args, w.shown.Args)
	return w.restored.answer, ok
}

// AskAnswered is an Ask that denies what no person has answered before, for
// agents that wait for nobody.
func (d *Queue) AskAnswered(_ context.Context, asked agent.ApprovalRequest) tool.Answer {
	if answer, ok := d.takeAnswer(asked); ok {
		return answer
	}
	return tool.Answer{Why: "There is no person to ask, so it is denied."}
}
