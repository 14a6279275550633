// Package tasks gives tasks to agents and to capabilities, on this node and on those that lend agents: for callers of the
// control API, for capabilities that agents answer, and for programs. A Spawner spawns an agent for one task; Tasks places
// a task, and begins it anew on another node where its node was lost.
package tasks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"io"
	"math"
	"symbio/agent"
	"symbio/agent/budget"
	"symbio/agent/definition"
	"symbio/agent/lending"
	"symbio/agent/node/rules"
	"symbio/agent/placement"
	"symbio/agent/session"
	"symbio/agent/step"
	"symbio/agent/tool"
	"symbio/community"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/permission"
	"symbio/security/sandbox"
	"symbio/security/visible"
)

// maxLost is how often a repeatable task is begun anew because its node was lost. A task that ends
// its nodes must not end them all.
const maxLost = 3

// sender sends an event about a task.
type sender = func(*symbiov1.RunTaskEvent) error

// Config has what tasks need of the node. All fields are required.
type Config struct {
	Self    community.Member // this node, with its id and name
	Agents  *Spawner
	Chooser *placement.Chooser
	Rules   *rules.Rules
	// Dir is the directory in which agents work.
	Dir string
	// NodeName returns the name of a node, or its id if the name is not known.
	NodeName func(community.NodeID) string
}

// Tasks runs tasks, also for the control API. It is safe for concurrent use.
type Tasks struct {
	cfg   Config
	calls *step.Cluster
}

// New returns Tasks.
func New(cfg Config) *Tasks {
	return &Tasks{cfg, step.NewCluster(&calls{Community: cfg.Agents.Community, unaccepted: map[community.MemberID]int{}})}
}

// run runs one task and sends its result last. If the node that worked is lost, the task is begun
// anew if it is repeatable. The error is one of a task that has not begun, or of send.
func (t *Tasks) run(ctx context.Context, r *symbiov1.RunTaskRequest, send sender) error {
	if wall := r.GetBudget().GetWall().AsDuration(); wall > 0 && r.GetCapability() != "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, wall, fmt.Errorf("not done in %v: %w", wall, context.DeadlineExceeded))
		defer cancel()
	}
	run, repeatable := t.callTask, r.GetRepeatable() || t.isIdempotent(r.GetCapability())
	if r.GetCapability() == "" {
		def, _ := t.cfg.Agents.Definitions.Find(r.GetAgent()) // without one here the request alone can say it
		run, repeatable = t.agentTask, r.GetRepeatable() || def.Repeatable
	}
	if r.GetAgain() && !repeatable {
		return send(taskResult(&symbiov1.TaskResult{Lost: true, Error: "it was begun before, and what became of it is not known; it is not repeatable, so it is not done again"}))
	}
	for lost := 0; ; lost++ {
		result, err := run(ctx, r, send)
		if err != nil {
			return err
		}
		if !result.GetLost() || !repeatable || lost == maxLost || ctx.Err() != nil {
			return send(taskResult(result))
		}
	}
}

// RunTask gives one task to a new agent or a capability. The caller confirms each place before an
// agent begins there.
func (t *Tasks) RunTask(stream symbiov1.Control_RunTaskServer) error {
	r, err := stream.Recv()
	if err != nil {
		return err
	}
	return t.run(stream.Context(), r, func(e *symbiov1.RunTaskEvent) error {
		if err := stream.Send(e); err != nil || e.GetPlaced() == nil {
			return err
		}
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			return err
		}
		return nil
	})
}

// Answer runs a task for a program of this process and returns its answer; see node.Node.RunTask.
func (t *Tasks) Answer(ctx context.Context, definition, task string, where []string) (answer string, err error) {
	r := &symbiov1.RunTaskRequest{Agent: definition, Task: task, Where: where}
	if _, held := tool.Guardrails(ctx); held != nil {
		r.Placement = string(placement.Local)
	}
	var result *symbiov1.TaskResult
	if err = t.run(tool.HandOver(ctx), r, func(e *symbiov1.RunTaskEvent) error { result = e.GetResult(); return nil }); err != nil {
		return "", err
	}
	switch {
	case result.GetLost():
		err = community.Explain(community.ErrUnavailable, result.GetError())
	case result.GetError() != "":
		err = community.Explain(community.ErrAgentFailed, result.GetError())
	}
	return result.GetText(), err
}

func taskResult(r *symbiov1.TaskResult) *symbiov1.RunTaskEvent {
	return &symbiov1.RunTaskEvent{Event: &symbiov1.RunTaskEvent_Result{Result: r}}
}

// agentTask gives the task to a new agent, which the Chooser places. This node is its parent.
func (t *Tasks) agentTask(ctx context.Context, r *symbiov1.RunTaskRequest, send sender) (*symbiov1.TaskResult, error) {
	want, def, err := t.request(r, send)
	if err != nil {
		return nil, err
	}
	limits := LimitsOf(t.cfg.Agents.Limits, r.GetBudget()).WithDefaults()
	whole := limits // of which the agent on another node gets all but its own place
	whole.Agents, whole.Depth = limits.Agents+1, limits.Depth+1
	who, err := t.personOf(r)
	if err != nil {
		return nil, err
	}
	b, err := t.borrower(who, def)
	if err != nil {
		return nil, err
	}
	var loan *budget.Loan
	var lent *lending.BorrowedAgent
	place, s := &symbiov1.TaskPlace{}, community.Signal{}
	release, err := t.cfg.Chooser.Start(ctx, want, func(at placement.Place) (err error) {
		place.Node, place.NodeId, place.Reason = cmp.Or(at.Node.Name, t.cfg.Self.Name), string(cmp.Or(at.Node.Node, t.cfg.Self.Node)), at.Reason
		if at.Node.ID == "" {
			return nil
		}
		if loan, err = budget.New(whole).OpenLoan(ctx, limits); err != nil {
			return err
		}
		var m community.Member
		if lent, m, err = b.Borrow(ctx, at.Node, loan, lending.Order{Definition: want.Definition, Reason: "a task of its own"}); err == nil {
			place.AgentId, s.Perception = string(m.ID), m.Accepts[0]
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	defer release()
	if err := send(&symbiov1.RunTaskEvent{Event: &symbiov1.RunTaskEvent_Placed{Placed: place}}); err != nil {
		return nil, err
	}
	if s.Data, err = json.Marshal(r.GetTask()); err != nil {
		return nil, err
	}
	if lent == nil {
		reply, spent, err := t.cfg.Agents.Do(agent.WithData(ctx), agent.Order{Definition: def, Limits: limits, Rules: who.policy, Ask: who.ask, Session: session.Info{Item: true}}, s)
		if community.NotBegun(err) {
			return nil, err
		}
		return who.answer(reply, spent, err, false), nil
	}
	defer b.Close(context.WithoutCancel(ctx)) // before its place is free
	if s.OnBehalf, err = b.Owner().Constraints(ctx); err != nil {
		return nil, err
	}
	reply, err := b.Send(ctx, community.MemberID(place.GetAgentId()), s)
	return who.answer(reply, loan.Total(), err, errors.Is(err, community.ErrUnavailable) || errors.Is(lent.Gone(), lending.ErrLost)), nil
}

// request returns what the Chooser has to know of a task, and the definition; none if this node does not have it.
func (t *Tasks) request(r *symbiov1.RunTaskRequest, send sender) (placement.Request, definition.Definition, error) {
	def, err := t.cfg.Agents.Definitions.Find(r.GetAgent())
	want := placement.Request{Definition: cmp.Or(def.Name, r.GetAgent()), Strategy: placement.Strategy(cmp.Or(r.GetPlacement(), def.Placement))}
	if err != nil {
		want.NotHere = err.Error()
	}
	if nodes := r.GetNodes(); len(nodes) > 0 {
		want.Allowed = func(m community.Member) error {
			if slices.Contains(nodes, m.Name) || slices.Contains(nodes, string(m.ID)) {
				return nil
			}
			return errors.New("it is not among the nodes that may work")
		}
		if err := want.Allowed(t.cfg.Self); err != nil {
			want.NotHere = err.Error()
		}
	}
	// It does not block: the places in a queue are far less than what a stream takes before anyone reads.
	want.Waiting = func(before int) {
		_ = send(&symbiov1.RunTaskEvent{Event: &symbiov1.RunTaskEvent_Waiting{Waiting: uint32(before)}}) // Start notices the end of ctx
	}
	want.Where, err = placement.ParseLabels(r.GetWhere())
	return want, def, err
}

// isIdempotent reports whether all nodes that provide a capability say that it may be called twice.
func (t *Tasks) isIdempotent(capability string) bool {
	return capability != "" && !slices.ContainsFunc(t.cfg.Agents.Community.Capabilities(), func(c community.NodeCapability) bool { return c.Name == capability && !c.Idempotent })
}

// callTask calls a capability on the node that has least to do for the tasks of this node.
func (t *Tasks) callTask(ctx context.Context, r *symbiov1.RunTaskRequest, send sender) (*symbiov1.TaskResult, error) {
	begun := false
	placed := func(on community.MemberID) error {
		begun = true
		return send(&symbiov1.RunTaskEvent{Event: &symbiov1.RunTaskEvent_Placed{Placed: &symbiov1.TaskPlace{Node: t.cfg.NodeName(community.NodeID(on)), NodeId: string(on)}}})
	}
	call := step.With(t.calls, step.Capability[json.RawMessage, json.RawMessage](r.GetCapability(), r.GetNodes()...))
	answer, err := step.With(placed, call).Run(ctx, json.RawMessage(r.GetTask()))
	switch {
	case err == nil:
		return &symbiov1.TaskResult{Text: string(answer)}, nil
	case community.NotBegun(err) || errors.Is(err, community.ErrInvalid):
		return nil, err
	case !begun && (ctx.Err() != nil || errors.Is(err, community.ErrUnavailable) || errors.Is(err, community.ErrStopped)):
		return nil, err
	}
	return &symbiov1.TaskResult{Error: err.Error(), Lost: errors.Is(err, community.ErrUnavailable)}, nil
}

// unknownPlaces is how many tasks are sent to a node that it has not accepted yet if it does not say how many it has places
// for, as older nodes do not.
const unknownPlaces = 8

// calls is the community for the calls of tasks. It is safe for concurrent use.
type calls struct {
	*community.Community
	mu         sync.Mutex
	unaccepted map[community.MemberID]int // calls by node; guarded by mu
}

// Invoke invokes a capability, tells the task of ctx that a node is about to begin with it, and returns the answer as JSON.
// The error of a call that no node has accepted says so (community.NotBegun).
func (c *calls) Invoke(ctx context.Context, on community.MemberID, capability string, s community.Signal) (community.Reply, error) {
	offered, _ := c.Capability(community.NodeID(on), capability)
	places := cmp.Or(offered.Places, unknownPlaces)
	c.mu.Lock()
	full := c.unaccepted[on] >= places // so that one which is frozen does not hold up more than it could do
	if !full {
		c.unaccepted[on]++
	}
	c.mu.Unlock()
	if full {
		return community.Reply{}, community.Explain(community.ErrBusy, fmt.Sprintf("it has not yet accepted %d tasks that were sent to it, which is as many as it has places for", places))
	}
	answered := sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.unaccepted[on]--; c.unaccepted[on] == 0 {
			delete(c.unaccepted, on)
		}
	})
	defer answered()
	begun := false
	ctx = community.WithAcceptance(ctx, func() error {
		begun = true
		answered()
		return step.Reader[func(community.MemberID) error](nil)(ctx)(on)
	})
	reply, err := c.Community.Invoke(ctx, on, capability, s)
	switch {
	case err == nil:
		return asJSON(reply), nil
	case !begun && (errors.Is(err, community.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)):
		return community.Reply{}, fmt.Errorf("%w: it did not accept the task: %v", community.ErrBusy, err)
	}
	return reply, err
}

// answer returns the result of an agent's task.
func (p *person) answer(reply community.Reply, spent budget.Spent, err error, lost bool) *symbiov1.TaskResult {
	r := &symbiov1.TaskResult{Text: string(reply.Data), Spent: &symbiov1.Spending{ModelCalls: uint32(spent.ModelCalls), Input: uint64(spent.Tokens), Cached: uint64(spent.Cached), Cost: spent.Cost}}
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
	// policy is that of the node with the rules of the person, which are allow.
	policy func() permission.Policy
	allow  []permission.Rule
	// next asks others; nil = there are none.
	next func(context.Context, agent.ApprovalRequest) tool.Answer

	mu      sync.Mutex
	denials []*symbiov1.Denial // at most maxDenials; guarded by mu
	omitted uint32             // guarded by mu
}

// maxDenials is how many denied calls of a task are told. The others are counted.
const maxDenials = 10

// personOf returns who decides for the person of a task. The error is that of a rule.
func (t *Tasks) personOf(r *symbiov1.RunTaskRequest) (_ *person, err error) {
	who := &person{dir: t.cfg.Dir, next: t.cfg.Agents.Ask}
	who.policy, who.allow, err = t.cfg.Rules.With(r.GetAllow())
	return who, err
}

// ask decides a call of an agent of this node, whose rules have judged it already, or a question of a lender about one of
// an agent that it lends. The lender has not seen that rules of the person allow the latter where its own do not, so they
// are judged here, beside those of this node and its guardrails: what these deny, may deny or ask about stays as it is.
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
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.denials) == maxDenials {
		p.omitted++
	} else {
		p.denials = append(p.denials, d)
	}
}

// borrower returns a Borrower for a task of this node, whose rules hold in the lent agent, with those of its person. def is
// this node's definition of the agent, whose rules no rule of the person lifts. The error is that of its guardrail.
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
			return permission.EncodeConstraints(permission.Chain{{Name: t.cfg.Self.Name, Policy: who.policy(), Granted: func() []permission.Grant { return t.cfg.Rules.Granted("") }}}, guardrails...)
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
			return who.ask(ctx, agent.ApprovalRequest{Name: q.Name + ", on node " + node.Name, Decision: tool.Decision{Agent: string(of), Tool: q.Tool, Args: q.Args, Within: slices.Concat(outer, own), Diff: func() string { return q.Diff }, Verdict: verdict}})
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
