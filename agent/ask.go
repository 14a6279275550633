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
}

// asks is how the agent asks a person; nil when there is nobody to ask.
func (a *Agent) asks() func(context.Context, tool.Decision) tool.Answer {
	l := a.life
	if l.ask == nil {
		return nil
	}
	return func(ctx context.Context, d tool.Decision) tool.Answer {
		answer := l.ask(ctx, Asked{Decision: d, Name: l.self.Name, For: l.behalf()})
		// What only the shell knows the words of may mean something else the next time.
		if answer.Always && (d.Verdict.Plan == nil || d.Verdict.Plan.Always()) {
			l.remember(permission.Call{Tool: d.Tool, Args: d.Args, Dir: l.factory.cfg.Dir}, answer.Allow)
		}
		return answer
	}
}

// behalf names those for whom the agent acts, the nearest first.
func (l *life) behalf() (names []string) {
	for p := l.parent; p != nil; p = p.parent {
		names = append(names, p.self.Name)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.masters {
		names = append(names, m.self.Name)
	}
	return names
}

// remember keeps what a person said of exactly this call, for the agent and for those above it that were
// asked with it.
func (l *life) remember(call permission.Call, allow bool) {
	answer := permission.Deny
	if allow {
		answer = permission.Allow
	}
	for ; l != nil; l = l.parent {
		l.memory.Remember(call, l.policy, answer)
	}
}

// readable is JSON for people: with < > & as they are.
func readable(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return nil
	}
	return bytes.TrimSpace(b.Bytes())
}

// decided reports a decision, and has it recorded before the tool may run.
func (a *Agent) decided(d tool.Decision) error {
	args := readable(d.Shown())
	a.report(Event{
		Type: EventDecision, Tool: d.Tool, Call: d.CallID, Args: args,
		Verdict: d.Verdict.Action.String(), Approved: &d.Approved, Stage: string(d.Verdict.Stage), Rule: d.Verdict.Rule, Source: d.Verdict.Source, Why: d.Verdict.Why, By: d.By,
	})
	if a.life.factory.cfg.Record == nil {
		return nil
	}
	v := d.Verdict
	return a.life.factory.cfg.Record(audit.Entry{
		Node: string(a.life.self.Node), Agent: d.Agent, Name: a.life.self.Name, For: a.life.behalf(), Call: d.CallID, Tool: d.Tool, Args: args,
		Verdict: v.Action.String(), Stage: string(v.Stage), Rule: v.Rule, Source: v.Source, Link: v.Link, Why: v.Why, Approved: d.Approved, By: d.By,
	})
}
