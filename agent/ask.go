package agent

import (
	"bytes"
	"context"
	"encoding/json"

	"symbio/agent/tool"
	"symbio/security/audit"
	"symbio/security/permission"
)

// Asked is a decision that a person is to take.
type Asked struct {
	tool.Decision
	Name string // of the agent
	// For is the chain of those for whom it acts, the nearest first.
	For []string
	// Lasting is what would allow this from now on, without a question; none when nothing exact would.
	Lasting []permission.Granted
}

// askAboutCalls returns the function by which the agent's tools ask a person about a call; nil without a person to ask.
func (i *instance) askAboutCalls() func(context.Context, tool.Decision) tool.Answer {
	if i.ask == nil {
		return nil
	}
	p := i.permissions
	return func(ctx context.Context, d tool.Decision) tool.Answer {
		call := permission.Call{Tool: d.Tool, Args: d.Args, Dir: i.factory.cfg.Dir, Within: d.Within}
		answer := i.ask(ctx, Asked{Decision: d, Name: i.self.Name, For: p.onBehalfOf(), Lasting: p.lasting(call, d.Verdict.Plan)})
		if p.policy().NoMemory {
			answer.Always = false
		}
		// What only the shell knows the words of may mean something else the next time.
		if answer.Always && (d.Verdict.Plan == nil || d.Verdict.Plan.Always()) {
			p.remember(call, answer.Allow)
		}
		return answer
	}
}

// recordDecision reports a decision and records it. The tool may run only after that, without an error.
func (i *instance) recordDecision(d tool.Decision) error {
	args := readable(d.Shown())
	i.report(Event{
		Type: EventDecision, Tool: d.Tool, Call: d.CallID, Args: args,
		Verdict: d.Verdict.Action.String(), Approved: &d.Approved, Stage: string(d.Verdict.Stage), Rule: d.Verdict.Rule, Source: d.Verdict.Source, Why: d.Verdict.Why, By: d.By,
	})
	if i.factory.cfg.Record == nil {
		return nil
	}
	v := d.Verdict
	return i.factory.cfg.Record(audit.Entry{
		Node: string(i.self.Node), Agent: d.Agent, Name: i.self.Name, For: i.permissions.onBehalfOf(), Call: d.CallID, Tool: d.Tool, Args: args,
		Verdict: v.Action.String(), Stage: string(v.Stage), Rule: v.Rule, Source: v.Source, Link: v.Link, Why: v.Why, Approved: d.Approved, By: d.By,
	})
}

// readable returns the arguments of a call as JSON for people, with < > & as they are; nil if they are no JSON.
func readable(args map[string]any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(args) != nil {
		return nil
	}
	return bytes.TrimSpace(b.Bytes())
}
