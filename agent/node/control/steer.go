package control

import (
	"context"
	"errors"
	"fmt"

	"symbio/agent/conversation"
	"symbio/community"
	symbiov1 "symbio/proto/symbio/v1"
)

// Steer says something to an agent wherever it lives.
func (c *server) Steer(ctx context.Context, r *symbiov1.SteerRequest) (*symbiov1.SteerReply, error) {
	m, err := c.members.one(r.GetMember(), func(m community.Member) bool { return m.Metadata["definition"] != "" })
	if err != nil {
		return nil, toStatus(err)
	}
	ctx, cancel := withTimeout(ctx, r.GetTimeout())
	defer cancel()
	receipt, err := c.cfg.Steering.Steer(ctx, m.ID, r.GetText())
	if err != nil && receipt.Outcome != conversation.Sent { // of what is sent, the receipt is all that is known
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%s did not ask its model again in time, so it was taken back: %w", m.Name, err)
		}
		return nil, toStatus(err)
	}
	return &symbiov1.SteerReply{Outcome: string(receipt.Outcome), Why: optional(receipt.Why), Member: string(m.ID), Name: m.Name, Node: string(m.Node), NodeName: c.cfg.NodeName(m.Node)}, nil
}
