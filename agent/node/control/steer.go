package control

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"symbio/agent/conversation"
	symbiov1 "symbio/proto/symbio/v1"
)

// Steer adds a remark to the next request of an agent to its model, on any node. The outcome in the
// reply says what became of it. DeadlineExceeded: the agent did not ask its model before the
// timeout of the request, and the remark was withdrawn. NotFound and InvalidArgument: the name fits
// no agent, or several.
func (c *server) Steer(ctx context.Context, r *symbiov1.SteerRequest) (*symbiov1.SteerReply, error) {
	m, err := c.findAgent(r.GetMember())
	if err != nil {
		return nil, toStatus(err)
	}
	ctx, cancel := withTimeout(ctx, r.GetTimeout())
	defer cancel()
	receipt, err := c.cfg.Steering.Steer(ctx, m.ID, r.GetText())
	// For a remark that was sent but not answered, the receipt is all that is known; the error is
	// dropped.
	if err != nil && receipt.Outcome != conversation.Sent {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%s did not ask its model again in time, so it was taken back: %w", m.Name, err)
		}
		return nil, toStatus(err)
	}
	return &symbiov1.SteerReply{Outcome: string(receipt.Outcome), Why: optional(receipt.Why), Member: string(m.ID), Name: m.Name, Node: string(m.Node), NodeName: c.cfg.NodeName(m.Node)}, nil
}

// Inspect returns the parts of the latest request to the model of an agent on any node. Only the
// system prompt has its text; the other parts have their sizes in bytes and tokens.
func (c *server) Inspect(ctx context.Context, r *symbiov1.InspectRequest) (*symbiov1.InspectReply, error) {
	m, err := c.findAgent(r.GetMember())
	if err != nil {
		return nil, toStatus(err)
	}
	parts, err := c.cfg.Steering.Inspect(ctx, m.ID)
	if err != nil {
		return nil, toStatus(err)
	}
	reply := &symbiov1.InspectReply{Member: string(m.ID), Name: m.Name, Node: string(m.Node), NodeName: c.cfg.NodeName(m.Node)}
	for _, p := range parts {
		part := &symbiov1.ShownPart{Kind: p.Kind, Name: p.Name, Count: uint32(p.Count), Bytes: uint32(p.Bytes), Tokens: uint32(p.Tokens)}
		if p.Kind == "system" {
			// proto3 strings must be valid UTF-8; a file that the prompt includes may not be.
			part.Text = new(strings.ToValidUTF8(p.Text, "\uFFFD"))
		}
		if p.Omitted > 0 {
			part.Omitted = new(uint32(p.Omitted))
		}
		reply.Parts = append(reply.Parts, part)
	}
	return reply, nil
}
