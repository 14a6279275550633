package approvals

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"symbio/agent"
	"symbio/agent/session"
	"symbio/agent/tool"
)

// Ask asks a person about a call and waits for the answer, as Queue.Ask does.
type Ask func(context.Context, agent.ApprovalRequest) tool.Answer

// restoration is what a request has whose node ended while it waited.
type restoration struct {
	session, call string // the ids
	answered      func(Ask)
}

// Restore lists a request again that waited for its answer when the node ended:
// entry is its session.Approval in the session s. The request has no deadline,
// because no call waits for it. Its answer calls answered, which must not block
// and has to go on with the session: the agent must ask with the given Ask,
// which returns the answer for exactly the call that was shown. The error says
// why the request cannot be shown.
func (d *Queue) Restore(s session.Info, entry session.Entry, answered func(Ask)) error {
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
	d.pending[r.id] = &pendingRequest{request: r, restored: &restoration{s.ID, entry.Call.ID, answered}}
	d.cfg.Events.Publish("approval", r.Agent, requestEvent{ID: r.id, Digest: r.digest, content: r.content})
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
			d.cfg.Events.Publish("answered", w.Agent, answerEvent{ID: id, Why: "its task goes on and asks again"})
		}
	}
}

// askAfter returns an Ask that has the answer to a restored request. It returns
// the answer at most once: when the agent of the session asks about the call for
// the first time, with the tool, the arguments and the reason that the person
// was shown. All else is asked as usual.
func (d *Queue) askAfter(w *pendingRequest, answer tool.Answer) Ask {
	var used atomic.Bool
	return func(ctx context.Context, asked agent.ApprovalRequest) tool.Answer {
		if asked.Session == w.restored.session && asked.CallID == w.restored.call && used.CompareAndSwap(false, true) {
			args, err := json.Marshal(asked.Shown())
			if err == nil && asked.Tool == w.Tool && asked.Verdict.Why == w.Why && bytes.Equal(args, w.Args) {
				return answer
			}
		}
		return d.Ask(ctx, asked)
	}
}
