package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"symbio/agent/step"
	"symbio/community"
	symbiov1 "symbio/proto/symbio/v1"
)

// maxLost is how often a repeatable task is begun anew because its node was lost. A task that ends
// its nodes must not end them all.
const maxLost = 3

// sender sends an event about a task.
type sender = func(*symbiov1.RunTaskEvent) error

// tasks runs tasks for callers of the control API and for Node.RunTask.
type tasks struct{ *parts }

// run runs one task and sends its result last. If the node that worked is lost, the task is begun
// anew if it is repeatable. The error is one of a task that has not begun, or of send.
func (p tasks) run(ctx context.Context, r *symbiov1.RunTaskRequest, send sender) error {
	if wall := r.GetBudget().GetWall().AsDuration(); wall > 0 && r.GetCapability() != "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, wall, fmt.Errorf("not done in %v: %w", wall, context.DeadlineExceeded))
		defer cancel()
	}
	repeatable := r.GetRepeatable() || p.isIdempotent(r.GetCapability())
	if r.GetAgain() && !repeatable {
		return send(taskResult(&symbiov1.TaskResult{Lost: true, Error: "it was begun before, and what became of it is not known; it is not repeatable, so it is not done again"}))
	}
	for lost := 0; ; lost++ {
		result, err := p.callTask(ctx, r, send)
		if err != nil {
			return err
		}
		if !result.GetLost() || !repeatable || lost == maxLost || ctx.Err() != nil {
			return send(taskResult(result))
		}
	}
}

func taskResult(r *symbiov1.TaskResult) *symbiov1.RunTaskEvent {
	return &symbiov1.RunTaskEvent{Event: &symbiov1.RunTaskEvent_Result{Result: r}}
}

// isIdempotent reports whether all nodes that provide a capability say that it may be called twice.
func (p tasks) isIdempotent(capability string) bool {
	return capability != "" && !slices.ContainsFunc(p.community.Capabilities(), func(c community.NodeCapability) bool { return c.Name == capability && !c.Idempotent })
}

// callTask calls a capability on the node that has least to do for the tasks of this node.
func (p tasks) callTask(ctx context.Context, r *symbiov1.RunTaskRequest, send sender) (*symbiov1.TaskResult, error) {
	begun := false
	placed := func(on community.MemberID) error {
		begun = true
		return send(&symbiov1.RunTaskEvent{Event: &symbiov1.RunTaskEvent_Placed{Placed: &symbiov1.TaskPlace{Node: p.report.nodeName(community.NodeID(on)), NodeId: string(on)}}})
	}
	call := step.With(p.calls, step.Capability[json.RawMessage, json.RawMessage](r.GetCapability(), r.GetNodes()...))
	answer, err := step.With(placed, call).Run(ctx, json.RawMessage(r.GetTask()))
	switch {
	case err == nil:
		return &symbiov1.TaskResult{Text: string(answer)}, nil
	case !begun || community.NotBegun(err) || errors.Is(err, community.ErrInvalid):
		return nil, err
	}
	return &symbiov1.TaskResult{Error: err.Error(), Lost: errors.Is(err, community.ErrUnavailable)}, nil
}

// taskCalls is the community for the calls of tasks.
type taskCalls struct{ *community.Community }

// Invoke invokes a capability, tells the task of ctx that a node has begun with it, and returns the answer as JSON.
func (c taskCalls) Invoke(ctx context.Context, on community.MemberID, capability string, s community.Signal) (community.Reply, error) {
	reply, err := c.Community.Invoke(ctx, on, capability, s)
	if err == nil {
		reply = asJSON(reply)
	}
	if placed := step.Reader[func(community.MemberID) error](nil)(ctx); !community.NotBegun(err) {
		err = errors.Join(err, placed(on))
	}
	return reply, err
}
