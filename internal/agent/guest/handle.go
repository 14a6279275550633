package guest

import (
	"context"
	"encoding/json"

	"github.com/coder/acp-go-sdk"

	"symbio/agent/llm"
)

// handle answers one message of the program. It is called by many goroutines, and for notifications by one, in their order.
func (p *program) handle(ctx context.Context, method string, raw json.RawMessage) (any, *acp.RequestError) {
	if method == acp.ClientMethodSessionUpdate {
		defer p.gate.updated()
	}
	var to struct {
		SessionID acp.SessionId `json:"sessionId"`
	}
	p.mu.Lock()
	own := p.session.id
	p.mu.Unlock()
	if json.Unmarshal(raw, &to) != nil || to.SessionID != own {
		p.gate.release(len(raw))
		return nil, acp.NewInvalidParams("there is no such session")
	}
	if method == acp.ClientMethodSessionUpdate {
		var n acp.SessionNotification
		if err := json.Unmarshal(raw, &n); err != nil {
			p.gate.release(len(raw))
			return nil, acp.NewInvalidParams(err.Error())
		}
		p.update(n.Update, len(raw))
		return nil, nil
	}
	defer p.gate.release(len(raw))
	if len(raw) > maxRequest {
		return nil, acp.NewInvalidParams("it is longer than 1 MiB: do it in smaller parts")
	}
	switch method {
	case acp.ClientMethodSessionRequestPermission:
		return answer(raw, func(r acp.RequestPermissionRequest) (any, error) { return p.permission(ctx, r, len(raw)), nil })
	case acp.ClientMethodFsReadTextFile:
		return answer(raw, func(r acp.ReadTextFileRequest) (any, error) { return p.readFile(ctx, r) })
	case acp.ClientMethodFsWriteTextFile:
		return answer(raw, func(r acp.WriteTextFileRequest) (any, error) { return p.writeFile(ctx, r) })
	case acp.ClientMethodTerminalCreate:
		return answer(raw, func(r acp.CreateTerminalRequest) (any, error) { return p.openTerminal(r) })
	case acp.ClientMethodTerminalOutput:
		return answer(raw, func(r acp.TerminalOutputRequest) (any, error) { return p.terminals.output(r.TerminalId) })
	case acp.ClientMethodTerminalWaitForExit:
		return answer(raw, func(r acp.WaitForTerminalExitRequest) (any, error) { return p.terminals.wait(ctx, r.TerminalId) })
	case acp.ClientMethodTerminalKill:
		return answer(raw, func(r acp.KillTerminalRequest) (any, error) {
			return acp.KillTerminalResponse{}, p.terminals.kill(r.TerminalId)
		})
	case acp.ClientMethodTerminalRelease:
		return answer(raw, func(r acp.ReleaseTerminalRequest) (any, error) {
			return acp.ReleaseTerminalResponse{}, p.terminals.release(r.TerminalId)
		})
	}
	return nil, acp.NewMethodNotFound(method)
}

// answer decodes the parameters of a request and answers it with do.
func answer[R any](raw json.RawMessage, do func(R) (any, error)) (any, *acp.RequestError) {
	var r R
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, acp.NewInvalidParams(err.Error())
	}
	v, err := do(r)
	if err != nil {
		return nil, &acp.RequestError{Code: -32603, Message: err.Error()}
	}
	return v, nil
}

// update puts what the program says and does into the answer. Outside of a prompt it is dropped.
func (p *program) update(u acp.SessionUpdate, bytes int) {
	var it item
	switch {
	case u.AgentMessageChunk != nil && u.AgentMessageChunk.Content.Text != nil:
		it.chunk = llm.Chunk{Text: u.AgentMessageChunk.Content.Text.Text}
	case u.AgentThoughtChunk != nil && u.AgentThoughtChunk.Content.Text != nil:
		it.chunk = llm.Chunk{Thought: u.AgentThoughtChunk.Content.Text.Text}
	case u.ToolCall != nil:
		it = p.step(p.reports.begin(u.ToolCall, bytes))
	case u.ToolCallUpdate != nil:
		it = p.step(p.reports.update(bytes, *u.ToolCallUpdate))
	case u.Plan != nil:
		it.ask = p.plan(u.Plan.Entries)
	case u.UsageUpdate != nil && u.UsageUpdate.Cost != nil:
		p.mu.Lock()
		if more := u.UsageUpdate.Cost.Amount - p.bill.whole; more > 0 {
			p.bill = bill{p.bill.whole + more, p.bill.due + more}
		}
		p.mu.Unlock()
	}
	if it.bytes = bytes; it.ask == nil && it.begun == nil && it.chunk == (llm.Chunk{}) || !p.put(it) {
		p.drop(it, interrupted)
	}
}

// step returns what shows a call of the program's own tools when it begins, and the ask that notes it when it has ended.
func (p *program) step(t report) (it item) {
	switch {
	case p.guest.isOwnTool(t.title):
	case t.ended:
		it.ask = p.guest.enlist(t.step())
	case t.begins:
		it.begun = t.call()
	}
	return it
}

// plan returns the ask that shows a plan of the program.
func (p *program) plan(entries []acp.PlanEntry) *ask {
	var steps []any
	for _, e := range entries {
		state := map[acp.PlanEntryStatus]string{acp.PlanEntryStatusInProgress: "running", acp.PlanEntryStatusCompleted: "done"}[e.Status]
		if state == "" {
			state = "pending"
		}
		steps = append(steps, map[string]any{"text": e.Content, "state": state})
	}
	return p.guest.enlist(&ask{tool: "Plan", args: map[string]any{"steps": steps}})
}
