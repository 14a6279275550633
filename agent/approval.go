package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/agent/tool"
	"symbio/community"
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
	// SoFar says in a sentence what the agent has done for its task, now.
	SoFar func() string
}

// RecordedDecision is a decision about a call as Config.Record gets it.
type RecordedDecision struct {
	tool.Decision
	Node community.NodeID // where the agent runs
	Name string           // the agent's name
	// OnBehalfOf names the agents and nodes that the agent acts for, the nearest first.
	OnBehalfOf []string
	// ShownArgs are the arguments as they would be executed, in JSON; nil if they are no JSON.
	ShownArgs json.RawMessage
}

// approver has calls of an agent decided by a person, and records decisions.
type approver struct {
	cfg         *Config
	ask         func(context.Context, ApprovalRequest) tool.Answer // Order.Ask; nil = there is no person
	permissions *permissions
	settings    *settings
	record      *record
	events      *events
}

// decide asks a person about a tool call, unless the person has answered in advance by the mode edits. Without a person to ask
// (Order.Ask) the answer is no. It blocks until the person answers or ctx ends.
func (a *approver) decide(ctx context.Context, d tool.Decision) tool.Answer {
	p := a.permissions
	if answer, ok := a.editsAnswer(d); ok {
		a.record.answered(d, answer)
		return answer
	}
	if a.ask == nil {
		return tool.Answer{Why: tool.NoPerson}
	}
	offers := p.offers(d)
	if slices.ContainsFunc(offers, func(o permission.Offer) bool { return o.Kind == permission.OfferChanges }) {
		d.Verdict.Why += recommendation
	}
	if err := a.record.Commit(session.Entry{Kind: session.Approval, Call: &llm.ToolCall{ID: d.CallID, Name: d.Tool, Args: readable(d.Shown())},
		Text: d.Verdict.Why}); err != nil {
		return tool.Answer{Why: err.Error()}
	}
	answer := a.askPerson(ctx, ApprovalRequest{Decision: d, Name: p.self.Name, Session: a.record.info().ID, OnBehalfOf: p.onBehalfOf(),
		LastingRules: p.lastingRules(d.Judged, d.Verdict.Plan), Offers: offers, Root: string(p.lineage[0].self.ID),
		SoFar: func() string { return a.events.snapshot().SoFar() }})
	a.record.answered(d, answer)
	if p.policy().NoMemory {
		answer.Always = false
	}
	if answer.Always && d.Verdict.Plan.Always() {
		p.remember(d.Judged, answer.Allow)
	}
	return answer
}

// recommendation is added to a question that one answer for the directory answers for good.
const recommendation = " In a repository of your own, `security: workspace` never asks about that."

// askPerson asks a person by Order.Ask, and blocks until the answer. Meanwhile the agent counts as
// waiting for a person.
func (a *approver) askPerson(ctx context.Context, r ApprovalRequest) tool.Answer {
	a.events.ask(r.CallID, r.Tool, true)
	defer a.events.ask(r.CallID, r.Tool, false)
	answered := a.cfg.OnAsk(ctx, r)
	answer := a.ask(ctx, r)
	answered(answer)
	return answer
}

// recordDecision reports a decision and writes it to the audit record (Config.Record). The tool may
// run only after it returned nil: a call that cannot be recorded must not happen.
func (a *approver) recordDecision(d tool.Decision) error {
	a.permissions.called(d.Judged)
	args := readable(d.Shown())
	a.events.report(event.Event{Type: event.TypeDecision, Why: d.Verdict.Why, Part: event.Decision{
		Tool: d.Tool, Call: d.CallID, Args: args,
		Verdict: d.Verdict.Action.String(), Approved: d.Approved, Stage: string(d.Verdict.Stage), Rule: d.Verdict.Rule, Source: d.Verdict.Source,
		By: d.By, Reason: d.Reason,
		Unasked: d.Unasked, Missing: d.Missing,
	}})
	return a.appendDecision(d, args, a.permissions.self.Node, a.permissions.self.Name, a.permissions.onBehalfOf())
}

// appendDecision appends to the audit log a decision about a call of an agent of a node, with the arguments that are shown.
func (a *approver) appendDecision(d tool.Decision, args json.RawMessage, node community.NodeID, name string, onBehalfOf []string) error {
	if a.cfg.Record == nil {
		return nil
	}
	return a.cfg.Record(RecordedDecision{Decision: d, Node: node, Name: name, OnBehalfOf: onBehalfOf, ShownArgs: args})
}

// permit records a decision. The error says that this failed, or why the call is denied.
func (a *approver) permit(d tool.Decision) error {
	if err := a.recordDecision(d); err != nil {
		return fmt.Errorf("the decision could not be recorded: %w", err)
	}
	if !d.Approved {
		return fmt.Errorf("%w: %s", errDeniedSkill, d.Verdict.Why)
	}
	return nil
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
