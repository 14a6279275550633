package tasks

import (
	"context"
	"slices"
	"strings"
	"sync"

	"math"
	"symbio/agent"
	"symbio/agent/budget"
	"symbio/agent/definition"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/agent/lending"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

// answer returns the result of an agent's task.
func (p *person) answer(reply community.Reply, spent budget.Spent, err error, lost bool) *symbiov1.TaskResult {
	r := &symbiov1.TaskResult{Text: string(reply.Data), Spent: &symbiov1.Spending{ModelCalls: uint32(spent.ModelCalls),
		Input: uint64(spent.Tokens), Cached: uint64(spent.Cached), Cost: spent.Cost}}
	if err != nil {
		r.Text, r.Error, r.Lost = "", err.Error(), lost
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r.Denials, r.OmittedDenials = p.denials, p.omitted
	return r
}

// person decides for the person who gave a task: by the rules that came with it, else as the node does without a
// person. It keeps the calls that were denied because there was none. It is safe for concurrent use.
type person struct {
	dir string // of the node
	// policy is the node's policy with the rules of the person, which are allow.
	policy func() permission.Policy
	allow  []permission.Rule
	// next asks others; nil = there are none.
	next func(context.Context, agent.ApprovalRequest) tool.Answer
	// denied is called with each call that is kept; nil = it is not.
	denied func(*symbiov1.Denial)

	mu      sync.Mutex
	denials []*symbiov1.Denial // at most maxDenials; guarded by mu
	omitted uint32             // guarded by mu
}

// maxDenials is how many denied calls of a task are told. The others are counted.
const maxDenials = 10

// personOf returns who decides for the person of a task. The error comes from a rule.
func (t *Tasks) personOf(r *symbiov1.RunTaskRequest) (_ *person, err error) {
	who := &person{dir: t.cfg.Dir, next: t.cfg.Agents.Ask}
	who.policy, who.allow, err = t.cfg.Rules.With(r.GetAllow())
	return who, err
}

// ask decides a call of an agent of this node, whose rules have judged it already, or a question of a lender about one of
// an agent that it lends. The lender has not seen that rules of the person allow the latter where its own do not, so they
// are judged here, beside the rules of this node and its guardrails: what these deny, may deny or ask about stays as it is.
func (p *person) ask(ctx context.Context, q agent.ApprovalRequest) tool.Answer {
	call := permission.Call{Tool: q.Tool, Args: q.Args, Dir: p.dir, Within: q.Within}
	chain := permission.Chain{{Policy: p.policy()}}
	lent := q.CallID == ""
	if lent {
		chain = append(chain, permission.Link{Policy: permission.Policy{Allow: p.allow}})
	}
	answer := tool.Answer{Why: tool.NoPerson}
	switch {
	case strings.HasPrefix(q.Verdict.Source, "skill:"): // its proposed rules, which no rule allows
		return answer
	case lent && q.Verdict.Rule == "" && allows(chain.Judge(call)): // a rule that asks is not lifted
		return tool.Answer{Allow: true, By: "a rule that came with the task"}
	case p.next != nil:
		if answer = p.next(ctx, q); answer.Allow || answer.Why == "" || lent && ctx.Err() != nil { // a lender that did not wait tells of it
			return answer
		}
	}
	args, _ := visible.JSON(q.Args) // none is shown if they are no JSON
	p.deny(&symbiov1.Denial{Agent: q.Name, Tool: q.Tool, Args: args, Why: q.Verdict.Why, Allow: chain.Explain(call).Allow()})
	return answer
}

// allows reports whether a rule of a person lets a call run. None gives the network.
func allows(v permission.Verdict) bool {
	return v.Action == permission.Allow && v.Box != permission.BoxNetwork
}

// deny keeps a call that was denied.
func (p *person) deny(d *symbiov1.Denial) {
	if p.denied != nil {
		p.denied(d)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.denials) == maxDenials {
		p.omitted++
	} else {
		p.denials = append(p.denials, d)
	}
}

// borrower returns a Borrower for a task of this node, whose rules hold in the lent agent, with the rules of its person. def is
// this node's definition of the agent, whose rules no rule of the person lifts. The error comes from its guardrail.
func (t *Tasks) borrower(who *person, def definition.Definition) (*lending.Borrower, error) {
	g, err := def.Guardrail.Guardrail()
	own := []permission.Guardrail{g.Rules()}
	if policy, has := def.Policy(); has {
		own = append(own, policy.Guardrail())
	}
	for i := range own {
		own[i].Group = -1 - i // none overrides another
	}
	owner := lending.Owner{
		Constraints: func(ctx context.Context) ([]byte, error) {
			guardrails, _ := tool.Guardrails(ctx)
			return permission.EncodeConstraints(permission.Chain{{Name: t.cfg.Self.Name, Policy: who.policy(),
				Granted: func() []permission.Grant { return t.cfg.Rules.Granted("") }}}, guardrails...)
		},
		OnlyReads: func() bool { return false },
		Sandbox:   func(context.Context) (*sandbox.Portable, error) { return nil, nil },
		Spent:     func(budget.Spent) {},
		Progress:  func(community.Member, string) {},
		Denied: func(node community.Member, q lending.Question) {
			args, _ := visible.JSON(q.Args) // as from JSON
			who.deny(&symbiov1.Denial{Agent: q.Name + ", on node " + node.Name, Tool: q.Tool, Args: args, Why: "node " + node.Name + ": " + q.Why})
		},
		Ask: func(ctx context.Context, node community.Member, of community.MemberID, q lending.Question) tool.Answer {
			verdict := permission.Verdict{Action: permission.Ask, Stage: permission.StageDefault, Rule: q.Rule, Why: q.Why}
			outer, _ := tool.Guardrails(ctx)
			return who.ask(ctx, agent.ApprovalRequest{Name: q.Name + ", on node " + node.Name, Decision: tool.Decision{
				Agent: string(of), Tool: q.Tool, Args: q.Args, Verdict: verdict,
				Within: slices.Concat(outer, own), Diff: func() string { return q.Diff },
			}})
		},
	}
	return &lending.Borrower{
		Community: t.cfg.Agents.Community, Self: t.cfg.Self,
		Owner: func() lending.Owner { return owner },
	}, err
}

// LimitsOf returns the configured limits, replaced by those that the request
// sets. Numbers are capped, so that they cannot overflow an int on any
// platform.
func LimitsOf(l budget.Limits, b *symbiov1.Budget) budget.Limits {
	for _, limit := range []struct {
		to   *int
		want uint32
	}{{&l.Depth, b.GetDepth()}, {&l.Agents, b.GetAgents()}, {&l.SpawnsPerMinute, b.GetSpawnsPerMinute()}, {&l.ModelCalls, b.GetModelCalls()}} {
		if limit.want > 0 {
			*limit.to = int(min(limit.want, math.MaxInt32))
		}
	}
	if wall := b.GetWall().AsDuration(); wall > 0 {
		l.Wall = wall
	}
	if b.GetTokens() > 0 {
		l.Tokens = int64(min(b.GetTokens(), math.MaxInt64>>8))
	}
	if b.GetCost() > 0 {
		l.Cost = b.GetCost()
	}
	return l
}
