package agent

import (
	"context"
	"encoding/json"
	"slices"

	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/security/audit"
	"symbio/internal/security/visible"
	"symbio/security/permission"
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
	// Offers are what the person can allow with the call, for the session of the agent Root and its sub-agents, or from now on.
	Offers []permission.Offer
	Root   string
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
		offers := p.offers(d)
		if slices.ContainsFunc(offers, func(o permission.Offer) bool { return o.Kind == permission.OfferChanges }) {
			d.Verdict.Why += recommendation
		}
		if err := i.record.Commit(session.Entry{Kind: session.Approval,
			Call: &llm.ToolCall{ID: d.CallID, Name: d.Tool, Args: readable(d.Shown())}, Text: d.Verdict.Why}); err != nil {
			return tool.Answer{Why: err.Error()}
		}
		answer := askPerson(ctx, i, ApprovalRequest{Decision: d, Name: i.self.Name, Session: i.record.info().ID, OnBehalfOf: p.onBehalfOf(),
			LastingRules: p.lastingRules(d.Judged, d.Verdict.Plan), Offers: offers, Root: string(p.lineage[0].self.ID)})
		i.record.answered(d, answer)
		if p.policy().NoMemory {
			answer.Always = false
		}
		if answer.Always && d.Verdict.Plan.Always() {
			p.remember(d.Judged, answer.Allow)
		}
		return answer
	}
}

// recommendation is added to a question that one answer for the directory answers for good.
const recommendation = " In a repository of your own, `security: workspace` never asks about that."

// recordDecision reports a decision and writes it to the audit record (Config.Record). The tool may
// run only after it returned nil: a call that cannot be recorded must not happen.
func (i *instance) recordDecision(d tool.Decision) error {
	i.permissions.called(d.Judged)
	args := readable(d.Shown())
	i.report(event.Event{Type: event.TypeDecision, Why: d.Verdict.Why, Part: event.Decision{
		Tool: d.Tool, Call: d.CallID, Args: args, Verdict: d.Verdict.Action.String(), Approved: d.Approved, Stage: string(d.Verdict.Stage),
		Rule: d.Verdict.Rule, Source: d.Verdict.Source, By: d.By, Reason: d.Reason, Unasked: d.Unasked, Missing: d.Missing,
	}})
	return appendDecision(i, d, args, i.self.Node, i.self.Name, i.permissions.onBehalfOf())
}

// appendDecision appends to the audit log a decision about a call of an agent of a node, with the arguments that are shown.
func appendDecision(i *instance, d tool.Decision, args json.RawMessage, node community.NodeID, name string, onBehalfOf []string) error {
	if i.factory.cfg.Record == nil {
		return nil
	}
	v := d.Verdict
	return i.factory.cfg.Record(audit.Entry{
		Node: string(node), Agent: d.Agent, Name: name, For: onBehalfOf, Call: d.CallID, Tool: d.Tool, Args: args,
		Verdict: v.Action.String(), Stage: string(v.Stage), Rule: v.Rule, Source: v.Source, Link: v.Link, Why: v.Why, Box: string(v.Box),
		Approved: d.Approved, By: d.By, Reason: d.Reason,
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
