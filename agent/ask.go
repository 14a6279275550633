package agent

import (
	"context"

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

// asks is how the agent asks a person; nil when there is nobody to ask.
func (a *Agent) asks() func(context.Context, tool.Decision) tool.Answer {
	l := a.life
	if l.ask == nil {
		return nil
	}
	return func(ctx context.Context, d tool.Decision) tool.Answer {
		call := permission.Call{Tool: d.Tool, Args: d.Args, Dir: l.factory.cfg.Dir, Within: d.Within}
		answer := l.ask(ctx, Asked{Decision: d, Name: l.self.Name, For: l.behalf(), Lasting: l.lasting(call, d.Verdict.Plan)})
		// What only the shell knows the words of may mean something else the next time.
		if answer.Always && (d.Verdict.Plan == nil || d.Verdict.Plan.Always()) {
			l.remember(call, answer.Allow)
		}
		return answer
	}
}

// lasting is what would allow a call from now on. It is tried: what a deny rule may mean, a guardrail or a
// definition asks about in spite of it, and then it is not offered.
func (l *life) lasting(call permission.Call, plan *permission.Plan) []permission.Granted {
	more := call.Lasting(plan)
	if len(more) == 0 || l.factory.cfg.Granted == nil || judged(l.chain(more...), call).Action != permission.Allow {
		return nil
	}
	return more
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
	return append(names, l.strange...)
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
