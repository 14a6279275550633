package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"symbio/agent/budget"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/agent/content"
	"symbio/internal/agent/lending"
	"symbio/internal/agent/team"
	"symbio/security/permission"
)

// Lend returns the Spawn function of a lending.LenderConfig. Only Policy, Rules and Ask of the
// order are used; the lease has the rest. Its errors for the borrower say no more than another node
// may know; the log has the details.
func (f *Factory) Lend(o Order) func(ctx context.Context, lease *lending.Lease) (community.Member, error) {
	return func(ctx context.Context, lease *lending.Lease) (community.Member, error) {
		var err error
		o := o
		if !lease.Definition.Program.IsZero() {
			o.Model = nil
		} else if o.Model, err = f.cfg.Model(ctx, lease.Definition.Model); err != nil {
			f.cfg.Logger.Warn("the model of a lent agent", "agent", lease.Definition.Name, "err", err)
			return community.Member{}, community.Explain(community.ErrUnavailable, "its model cannot be opened there now")
		}
		o.Definition, o.LifetimeBudget, o.Ask = lease.Definition, true, askForLent(lease, o.Ask)
		if lease.Manifest != (content.Hash{}) {
			w, err := f.cfg.Workspaces.Checkout(ctx, lease.Node, lease.Manifest)
			if err != nil {
				return community.Member{}, err
			}
			o.Workspace, lease.Checkout, lease.CloseWorkspace = &Workspace{w.Dir, w.Tools}, w.Checkout, w.Close
		}
		i := f.newInstance(o)
		i.task.account = lease.Account
		i.permissions.lease, i.permissions.keptTools, i.settings.borrower = lease, lease.Tools, lease
		if _, err = ownConstraints(i); err != nil {
			f.cfg.Logger.Warn("the sandbox of a lent agent", "agent", i.order.Definition.Name, "err", err)
			return community.Member{}, community.Explain(community.ErrUnavailable, "the sandbox limits of its definition, or those of its parent, cannot be kept there now")
		}
		return f.begin(ctx, lease.Name, i, community.WithMaxCall(lease.MaxLifetime))
	}
}

// askForLent returns the function that has calls of a lent agent decided: by the borrower's person, by
// here, or by both, as the lease says. A person's grants and answers for this node alone, such as
// the rules of a skill, only here decides; nil = no person.
func askForLent(lease *lending.Lease, here func(context.Context, ApprovalRequest) tool.Answer) func(context.Context, ApprovalRequest) tool.Answer {
	if here == nil {
		here = func(context.Context, ApprovalRequest) tool.Answer { return tool.Answer{Why: tool.NoPerson} }
	}
	return func(ctx context.Context, r ApprovalRequest) tool.Answer {
		if r.Tool == trustTool || strings.HasPrefix(r.Tool, tool.QuestionOf) {
			return here(ctx, r)
		}
		q := lending.Question{Name: r.Name, Tool: r.Tool, Args: r.Shown(), Rule: r.Verdict.Rule, Why: r.Verdict.Why, Once: !r.Verdict.Plan.Always()}
		var answer tool.Answer
		if lease.Approvals != lending.AskHere {
			if r.Diff != nil {
				q.Diff = r.Diff()
			}
			if answer = lease.Ask(ctx, q); !answer.Allow || lease.Approvals != lending.AskBoth {
				return answer
			}
		}
		own := here(ctx, r)
		if !own.Allow && own.Why != "" {
			return lease.Deny(q, own.Why)
		}
		if lease.Approvals == lending.AskBoth {
			own.Always, own.Lasting, own.By = false, false, answer.By+", and "+own.By
		}
		return own
	}
}

// decideBorrowed puts a call of an agent that the agent has borrowed to its person, and records the
// answer. A call that its rules, its mode, or an earlier answer of a person deny now is denied without a
// question.
func (a *approver) decideBorrowed(ctx context.Context, node community.Member, of community.MemberID, q lending.Question) tool.Answer {
	name, p := q.Name+", on node "+node.Name, a.permissions
	why := a.settings.onlyReads()
	if v := p.chain().Judge(permission.Call{Tool: q.Tool, Args: q.Args, Dir: p.dir, Within: p.guardrails()}); v.Action == permission.Deny &&
		v.Stage != permission.StageDefault {
		why = v.Why
	}
	d := tool.Decision{
		Agent: string(of), Tool: q.Tool, Args: q.Args, Within: p.guardrails(), Diff: func() string { return q.Diff },
		Verdict: permission.Verdict{Action: permission.Ask, Stage: permission.StageDefault, Rule: q.Rule, Why: q.Why},
	}
	answer, behalf := tool.Answer{Why: cmp.Or(why, tool.NoPerson)}, append([]string{p.self.Name}, p.onBehalfOf()...)
	if why == "" && a.ask != nil && q.Tool != trustTool {
		// The event tells observers of the agent whose sub-agent it is.
		a.cfg.Report(event.Event{Type: event.TypeProgress, Agent: string(of), Name: name, Parent: string(p.self.ID), Text: "asks for " + q.Tool})
		answer = a.askPerson(ctx, ApprovalRequest{Decision: d, Name: name, OnBehalfOf: behalf})
	}
	answer.Always = answer.Always && !p.policy().NoMemory
	d.Approved, d.By, d.Reason, d.Verdict.Why = answer.Allow, answer.By, answer.Reason, cmp.Or(answer.Why, d.Verdict.Why)
	if d.Unasked = !answer.Allow && answer.Why == tool.NoPerson; d.Unasked { // who gave the task hears of it as of a call here
		a.cfg.Report(event.Event{Type: event.TypeDecision, Agent: string(of), Name: name, Parent: string(p.self.ID), Why: answer.Why,
			Part: event.Decision{
				Tool: q.Tool, Args: readable(q.Args), Verdict: d.Verdict.Action.String(), Approved: d.Approved, Stage: string(d.Verdict.Stage),
				Rule: q.Rule, Unasked: true,
			}})
	}
	if a.appendDecision(d, readable(d.Shown()), node.Node, name, behalf) != nil {
		return tool.Answer{Why: "The answer cannot be recorded, so it is denied."}
	}
	return answer
}

// borrowing returns what the agent's Borrower asks and tells, with which it spawns sub-agents on other nodes and
// sends them signals.
func (s *subAgents) borrowing() lending.Owner {
	i, p := s.parent, s.parent.permissions
	return lending.Owner{
		Constraints: func(ctx context.Context) ([]byte, error) { return p.encodeConstraints(ctx, true) },
		OnlyReads:   func() bool { return i.settings.onlyReads() != "" },
		Sandbox:     p.portableSandbox,
		Ask:         i.approver.decideBorrowed,
		Denied: func(node community.Member, q lending.Question) {
			if lease := p.borrower(); lease != nil {
				q.Name += ", on node " + node.Name
				lease.Deny(q, q.Why)
			}
		},
		Spent: func(more budget.Spent) {
			if more == (budget.Spent{}) {
				return
			}
			_ = i.record.Commit(session.Entry{Kind: session.Lent, Spent: &more}) // the commit before the next request reports the error
			p.borrower().SpentChanged()
		},
		Progress: func(of community.Member, message string) {
			i.factory.cfg.Report(event.Event{Type: event.TypeProgress, Agent: string(of.ID), Name: of.Name, Parent: string(i.self.ID), Text: message})
		},
	}
}

// lender finds the node that the model named. The guard has judged replicate_agent already; here the call counts as an
// invocation of that node's capability as well, and the agent's model reads why it was denied.
func (s *subAgents) lender(ctx context.Context, w team.SpawnRequest) (community.Member, error) {
	definition := cmp.Or(w.Definition, s.parent.order.Definition.Name)
	if v := s.parent.permissions.judgeRemote(ctx, definition, w.Node); v.Action == permission.Deny {
		return community.Member{}, fmt.Errorf("you may not spawn agents on other nodes: %s", v.Why)
	}
	return s.borrower.Lender(w.Node, definition)
}

// judgeRemote returns the verdict on a spawn on another node.
func (p *permissions) judgeRemote(ctx context.Context, definition, node string) permission.Verdict {
	p = p.at(ctx)
	inner, _ := tool.Guardrails(ctx)
	chain := p.chain()
	call := lending.SpawnCall(p.dir, map[string]any{"agent": definition, "node": node})
	call.Within = slices.Concat(p.guardrails(), inner)
	return chain.Judge(lending.DecisiveCall(chain, call))
}

// borrow has another node start a sub-agent, in the workspace of a hash, if there is one.
func (s *subAgents) borrow(ctx context.Context, w team.SpawnRequest, hash content.Hash,
	node community.Member) (_ *team.Child, as session.ChildAgent, err error) {
	i := s.parent
	order := lending.Order{Definition: cmp.Or(w.Definition, i.order.Definition.Name), Name: w.Name, Reason: w.Reason, Tools: w.Keep, Workspace: hash}
	if order.Skills, err = s.skills(ctx); err != nil {
		return nil, as, fmt.Errorf("your active skills: %w", err)
	}
	loan, err := i.task.account.OpenLoan(ctx, w.Share)
	if err != nil {
		return nil, as, err
	}
	// Who the agent works for now holds the other one as long as it lives.
	b, m, err := s.borrower.Borrow(i.permissions.fix(ctx), node, loan, order)
	if err != nil {
		return nil, as, err
	}
	return &team.Child{Member: m, Handle: b, Account: loan.Account, Omitted: b.OmittedSkills()},
		session.ChildAgent{Node: string(m.Node), On: node.Name}, nil
}

// errorForCaller returns the error of a task as its caller may read it. Errors lose their text on
// the way to another node. A reached limit is no secret, and its text has the summary of the work that is
// done so far, so that error keeps it; of an answer that does not fit, the caller learns that alone.
func errorForCaller(s community.Signal, err error) error {
	var over *budget.ExceededError
	switch {
	case callingNode(s) == "":
		return err
	case errors.As(err, &over):
		return community.Explain(community.ErrAgentFailed, over.Error())
	case errors.Is(err, llm.ErrUnfit):
		return community.Explain(community.ErrAgentFailed, "its answer does not fit its output schema")
	}
	return err
}
