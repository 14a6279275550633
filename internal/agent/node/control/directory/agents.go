package directory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"symbio/agent/conversation"
	"symbio/community"
	"symbio/internal/agent/node/steering"
	symbiov1 "symbio/proto/symbio/v1"
)

// WatchFleet sends the nodes and agents of the community, and then what changes. ResourceExhausted:
// the caller did not read in time.
func (d Directory) WatchFleet(r *symbiov1.FleetRequest, stream symbiov1.Control_WatchFleetServer) error {
	return d.cfg.Fleet.Watch(stream.Context(), r.GetOnce(), stream.Send)
}

// findAgent returns the agent that a request names. Only agents have a definition in their metadata.
func (d Directory) findAgent(name string) (community.Member, error) {
	return d.find(name, func(m community.Member) bool { return m.Metadata[community.DefinitionKey] != "" })
}

// Interrupt ends the task of an agent. The reply says whether it had one.
func (d Directory) Interrupt(ctx context.Context, r *symbiov1.InterruptRequest) (*symbiov1.InterruptReply, error) {
	m, err := d.findAgent(r.GetMember())
	if err == nil {
		err = d.cfg.Steering.Interrupt(ctx, m.ID)
	}
	idle := errors.Is(err, conversation.ErrIdle)
	if err != nil && !idle {
		return nil, err
	}
	return &symbiov1.InterruptReply{Interrupted: !idle, Member: string(m.ID), Name: m.Name, Node: string(m.Node), NodeName: d.cfg.NodeName(m.Node)}, nil
}

// maxConversation bounds the messages of a Conversation in bytes: most of the 4 MiB that gRPC accepts
// by default.
const maxConversation = 3 << 20

// Conversation returns the state of an agent and its latest messages, at most steering.MaxShown; long
// texts in them are cut.
func (d Directory) Conversation(ctx context.Context, r *symbiov1.ConversationRequest) (*symbiov1.ConversationReply, error) {
	m, err := d.findAgent(r.GetMember())
	if err != nil {
		return nil, err
	}
	state, err := d.cfg.Steering.State(ctx, m.ID, true)
	if err != nil {
		return nil, err
	}
	latest := state.Transcript[max(0, len(state.Transcript)-steering.MaxShown):]
	data, err := json.Marshal(steering.Shorten(latest))
	for err == nil && len(data) > maxConversation {
		latest = latest[(len(latest)+1)/2:]
		data, err = json.Marshal(steering.Shorten(latest))
	}
	if err != nil {
		return nil, err
	}
	return &symbiov1.ConversationReply{
		Member: string(m.ID), Name: m.Name, Node: string(m.Node), NodeName: d.cfg.NodeName(m.Node),
		Working: state.Responding, Waiting: uint32(max(0, state.Waiting) + max(0, state.PendingSteering)),
		Transcript: data, Omitted: uint32(max(0, state.Omitted) + len(state.Transcript) - len(latest)),
	}, nil
}

// Steer adds a remark to the next request of an agent to its model, on any node. The outcome in the
// reply says what became of it. DeadlineExceeded: the agent did not ask its model before the
// timeout of the request, and the remark was withdrawn. NotFound and InvalidArgument: the name fits
// no agent, or several.
func (d Directory) Steer(ctx context.Context, r *symbiov1.SteerRequest) (*symbiov1.SteerReply, error) {
	m, err := d.findAgent(r.GetMember())
	if err != nil {
		return nil, err
	}
	ctx, cancel := withTimeout(ctx, r.GetTimeout())
	defer cancel()
	receipt, err := d.cfg.Steering.Steer(ctx, m.ID, r.GetText())
	// For a remark that was sent but not answered, the receipt is all that is known; the error is
	// dropped.
	if err != nil && receipt.Outcome != conversation.Sent {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%s did not ask its model again in time, so it was taken back: %w", m.Name, err)
		}
		return nil, err
	}
	return &symbiov1.SteerReply{Outcome: string(receipt.Outcome), Why: optional(receipt.Why), Member: string(m.ID), Name: m.Name,
		Node: string(m.Node), NodeName: d.cfg.NodeName(m.Node)}, nil
}

// Inspect returns the parts of the latest request to the model of an agent on any node. Only the
// system prompt has its text; the other parts have their sizes in bytes and tokens.
func (d Directory) Inspect(ctx context.Context, r *symbiov1.InspectRequest) (*symbiov1.InspectReply, error) {
	m, err := d.findAgent(r.GetMember())
	if err != nil {
		return nil, err
	}
	parts, err := d.cfg.Steering.Inspect(ctx, m.ID)
	if err != nil {
		return nil, err
	}
	reply := &symbiov1.InspectReply{Member: string(m.ID), Name: m.Name, Node: string(m.Node), NodeName: d.cfg.NodeName(m.Node)}
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

// Terminate ends an agent and waits until it has ended: one of this node, or one that remote ends, which returns whether it does.
func (d Directory) Terminate(ctx context.Context, name string, remote func(context.Context, community.MemberID) bool) (*symbiov1.LocatedMember, error) {
	m, err := d.find(name, func(community.Member) bool { return true })
	if err != nil {
		return nil, err
	}
	if remote(ctx, m.ID) {
		return d.Locate(m), nil
	}
	return d.Locate(m), d.cfg.Community.Terminate(ctx, m.ID)
}
