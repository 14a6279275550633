package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"symbio/agent/tool"
	symbiov1 "symbio/proto/symbio/v1"
)

// Approvals lists the decisions that wait, here first, and on the nodes that let this one see theirs.
func (c *control) Approvals(ctx context.Context, r *symbiov1.ApprovalsRequest) (*symbiov1.ApprovalsReply, error) {
	reply := &symbiov1.ApprovalsReply{Approvals: c.node.approvals.list(r.GetId())}
	for _, a := range reply.Approvals {
		a.NodeName = c.node.name
	}
	if r.GetHere() || r.GetId() != "" && len(reply.Approvals) > 0 {
		return reply, nil
	}
	more, problems := c.node.elsewhere(ctx, r.GetId())
	reply.Approvals, reply.Problems = append(reply.Approvals, more...), problems
	return reply, nil
}

// Answer decides what waits here or, where it does not, on another node.
func (c *control) Answer(ctx context.Context, r *symbiov1.AnswerRequest) (*symbiov1.AnswerReply, error) {
	n := c.node
	answer := tool.Answer{Allow: r.GetAllow(), Always: r.GetAlways(), Lasting: r.GetLasting(), By: cmp.Or(r.GetBy(), "control socket")}
	if answer.Lasting && !answer.Allow {
		return nil, toStatus(fmt.Errorf("%w: only what is allowed can last; a denial that lasts is a rule in the configuration", errWrong))
	}
	here, err := n.approvals.answer(r.GetId(), r.GetDigest(), answer)
	if errors.Is(err, errOther) || errors.Is(err, errNotLasting) {
		err = fmt.Errorf("%w: approval %q: %w", errWrong, r.GetId(), err)
	}
	if err != nil {
		return nil, toStatus(err)
	}
	if here != nil {
		a := here.wire()
		a.NodeName = n.name
		return &symbiov1.AnswerReply{Approval: a}, nil
	}
	a, err := n.answerElsewhere(ctx, r)
	if err != nil {
		return nil, toStatus(err)
	}
	return &symbiov1.AnswerReply{Approval: a}, nil
}
