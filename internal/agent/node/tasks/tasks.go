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

	"io"
	"symbio/agent"
	"symbio/agent/budget"
	"symbio/agent/definition"
	"symbio/agent/session"
	"symbio/agent/step"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/agent/lending"
	"symbio/internal/agent/node/rules"
	"symbio/internal/agent/placement"
	"symbio/internal/agent/workspace/transfer"
	symbiov1 "symbio/proto/symbio/v1"
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
	// Workspaces sends files along with agents that other nodes lend.
	Workspaces *transfer.Server
	// NodeName returns the name of a node, or its id if the name is not known.
	NodeName func(community.NodeID) string
}

// Tasks runs tasks, also for the control API. It is safe for concurrent use.
type Tasks struct {
	cfg   Config
	calls *step.Cluster
	kept  remotes
}

// New returns Tasks.
func New(cfg Config) *Tasks {
	return &Tasks{cfg: cfg, calls: step.NewCluster(&calls{Community: cfg.Agents.Community, unaccepted: map[community.MemberID]int{}})}
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
		var m community.Member
		order := lending.Order{Definition: want.Definition, Reason: "a task of its own"}
		if lent, loan, m, err = borrow(ctx, b, at.Node, limits, order); err == nil {
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
		a, err := t.cfg.Agents.Do(agent.WithData(ctx),
			agent.Order{Definition: def, Limits: limits, Rules: who.policy, Ask: who.ask, Session: session.Info{Item: true}}, s)
		if community.NotBegun(err) {
			return nil, err
		}
		return who.answer(a.reply(), a.Spent, err, false), nil
	}
	defer b.Close(context.WithoutCancel(ctx)) // before its place is free
	if s.OnBehalf, err = b.Owner().Constraints(ctx); err != nil {
		return nil, err
	}
	reply, err := b.Send(ctx, community.MemberID(place.GetAgentId()), s)
	return who.answer(reply, loan.Account.Total(), err, errors.Is(err, community.ErrUnavailable) || errors.Is(lent.Gone(), lending.ErrLost)), nil
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
	want.Where, err = community.ParseLabels(r.GetWhere())
	return want, def, err
}

// isIdempotent reports whether all nodes that provide a capability say that it may be called twice.
func (t *Tasks) isIdempotent(capability string) bool {
	return capability != "" && !slices.ContainsFunc(t.cfg.Agents.Community.Capabilities(),
		func(c community.NodeCapability) bool { return c.Name == capability && !c.Idempotent })
}

// callTask calls a capability on the node that has least to do for the tasks of this node.
func (t *Tasks) callTask(ctx context.Context, r *symbiov1.RunTaskRequest, send sender) (*symbiov1.TaskResult, error) {
	begun := false
	placed := func(on community.MemberID) error {
		begun = true
		place := &symbiov1.TaskPlace{Node: t.cfg.NodeName(community.NodeID(on)), NodeId: string(on)}
		return send(&symbiov1.RunTaskEvent{Event: &symbiov1.RunTaskEvent_Placed{Placed: place}})
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
