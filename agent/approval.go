package agent

import (
	"context"
	"encoding/json"

	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/security/audit"
	"symbio/security/permission"
	"symbio/security/visible"
)

// ApprovalRequest is a decision that is put to a person: a tool call, or the rules that a skill
// proposes.
type ApprovalRequest struct {
	tool.Decision
	Name    string // the agent's name
	Session string // the id of the agent's session; "" = it is not kept
	// OnBehalfOf names the agents and nodes that the agent acts for, the nearest first.
	OnBehalfOf []string
	// LastingRules are the rules that would allow this call from now on without asking; empty if no
	// exact rule would.
	LastingRules []permission.Grant
}

// askAboutCalls returns the function that asks a person about a tool call, unless the person has
// answered in advance by the mode edits. Without a person to ask (Order.Ask) the answer is no. The
// function blocks until the person answers or ctx ends.
func (i *instance) askAboutCalls() func(context.Context, tool.Decision) tool.Answer {
	p := i.permissions
	return func(ctx context.Context, d tool.Decision) tool.Answer {
		if answer, ok := editsAnswer(i, d); ok {
			i.record.answered(d, answer)
			return answer
		}
		if i.ask == nil {
			return tool.Answer{Why: tool.NoPerson}
		}
		call := permission.Call{Tool: d.Tool, Args: d.Args, Dir: i.workspace.Dir, Within: d.Within}
		if err := i.record.Commit(session.Entry{Kind: session.Approval, Call: &llm.ToolCall{ID: d.CallID, Name: d.Tool, Args: readable(d.Shown())}, Text: d.Verdict.Why}); err != nil {
			return tool.Answer{Why: err.Error()}
		}
		answer := askPerson(ctx, i, ApprovalRequest{Decision: d, Name: i.self.Name, Session: i.record.info().ID, OnBehalfOf: p.onBehalfOf(), LastingRules: p.lastingRules(call, d.Verdict.Plan)})
		i.record.answered(d, answer)
		if p.policy().NoMemory {
			answer.Always = false
		}
		if call, ok := d.Verdict.Plan.Remembers(call, answer.Allow); answer.Always && ok {
			p.remember(call, answer.Allow)
		}
		return answer
	}
}

// recordDecision reports a decision and writes it to the audit record (Config.Record). The tool may
// run only after it returned nil: a call that cannot be recorded must not happen.
func (i *instance) recordDecision(d tool.Decision) error {
	args := readable(d.Shown())
	i.report(Event{
		Type: EventDecision, Tool: d.Tool, Call: d.CallID, Args: args,
		Verdict: d.Verdict.Action.String(), Approved: &d.Approved, Stage: string(d.Verdict.Stage), Rule: d.Verdict.Rule, Source: d.Verdict.Source, Why: d.Verdict.Why, By: d.By, Reason: d.Reason,
		Unasked: d.Unasked, Missing: d.Missing,
	})
	return appendDecision(i, d, i.self.Node, i.self.Name, i.permissions.onBehalfOf())
}

// appendDecision appends to the audit log a decision about a call of an agent of a node.
func appendDecision(i *instance, d tool.Decision, node community.NodeID, name string, onBehalfOf []string) error {
	if i.factory.cfg.Record == nil {
		return nil
	}
	v := d.Verdict
	return i.factory.cfg.Record(audit.Entry{
		Node: string(node), Agent: d.Agent, Name: name, For: onBehalfOf, Call: d.CallID, Tool: d.Tool, Args: readable(d.Shown()),
		Verdict: v.Action.String(), Stage: string(v.Stage), Rule: v.Rule, Source: v.Source, Link: v.Link, Why: v.Why, Box: string(v.Box), Approved: d.Approved, By: d.By, Reason: d.Reason,
	})
}

// readable returns the arguments of a call as JSON for people, with < > & as they are; nil if they
// are no JSON.
func readable(args map[string]any) json.RawMessage {
	text, err := visible.JSON(args)
	if err != nil {
		return nil
	}
	return text
}
