package control

import (
	"context"
	"encoding/json"
	"errors"

	"symbio/agent/conversation"
	"symbio/community"
	symbiov1 "symbio/proto/symbio/v1"
)

// fleetServer implements the methods of the service for the view of the whole community, and for
// single agents in it, on any node.
type fleetServer struct {
	symbiov1.UnimplementedControlServer
	cfg     Config
	members directory
}

// WatchFleet sends the nodes and agents of the community, and then what changes. ResourceExhausted:
// the caller did not read in time.
func (c *fleetServer) WatchFleet(r *symbiov1.FleetRequest, stream symbiov1.Control_WatchFleetServer) error {
	return toStatus(c.cfg.Fleet.Watch(stream.Context(), r.GetOnce(), stream.Send))
}

// findAgent returns the agent that a request names. Only agents have a definition in their metadata.
func (c *fleetServer) findAgent(name string) (community.Member, error) {
	return c.members.find(name, func(m community.Member) bool { return m.Metadata[community.DefinitionKey] != "" })
}

// Interrupt ends the task of an agent. The reply says whether it had one.
func (c *fleetServer) Interrupt(ctx context.Context, r *symbiov1.InterruptRequest) (*symbiov1.InterruptReply, error) {
	m, err := c.findAgent(r.GetMember())
	if err == nil {
		err = c.cfg.Steering.Interrupt(ctx, m.ID)
	}
	idle := errors.Is(err, conversation.ErrIdle)
	if err != nil && !idle {
		return nil, toStatus(err)
	}
	return &symbiov1.InterruptReply{Interrupted: !idle, Member: string(m.ID), Name: m.Name, Node: string(m.Node), NodeName: c.cfg.NodeName(m.Node)}, nil
}

// maxConversation bounds the messages of a Conversation in bytes: most of the 4 MiB that gRPC accepts
// by default.
const maxConversation = 3 << 20

// Conversation returns the state of an agent and its latest messages, at most maxTranscript; long
// texts in them are cut.
func (c *fleetServer) Conversation(ctx context.Context, r *symbiov1.ConversationRequest) (*symbiov1.ConversationReply, error) {
	m, err := c.findAgent(r.GetMember())
	if err != nil {
		return nil, toStatus(err)
	}
	state, err := c.cfg.Steering.State(ctx, m.ID, true)
	if err != nil {
		return nil, toStatus(err)
	}
	latest := state.Transcript[max(0, len(state.Transcript)-maxTranscript):]
	data, err := json.Marshal(shorten(latest))
	for err == nil && len(data) > maxConversation {
		latest = latest[(len(latest)+1)/2:]
		data, err = json.Marshal(shorten(latest))
	}
	if err != nil {
		return nil, toStatus(err)
	}
	return &symbiov1.ConversationReply{
		Member: string(m.ID), Name: m.Name, Node: string(m.Node), NodeName: c.cfg.NodeName(m.Node),
		Working: state.Responding, Waiting: uint32(max(0, state.Waiting) + max(0, state.PendingSteering)),
		Transcript: data, Omitted: uint32(max(0, state.Omitted) + len(state.Transcript) - len(latest)),
	}, nil
}
