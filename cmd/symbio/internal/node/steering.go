package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"symbio/agent/conversation"
	"symbio/agent/llm"
	"symbio/agent/tool/peer"
	"symbio/community"
)

// The capabilities by which other nodes reach the agents of this one while they work. Who may is for authorize to say.
const (
	agentsSteer     = "agents.steer"
	agentsInterrupt = "agents.interrupt"
	agentsState     = "agents.state"
)

// steerMargin is what is left of a call's time to tell that what was said was withdrawn.
const steerMargin = 500 * time.Millisecond

// agentJSON is what the capabilities take: which agent, what to say to it, and whether its transcript is wanted.
type agentJSON struct {
	Member     community.MemberID `json:"member"`
	Text       string             `json:"text,omitempty"`
	Transcript bool               `json:"transcript,omitempty"`
}

// interruptJSON is what agents.interrupt answers: false when the agent had no task.
type interruptJSON struct {
	Interrupted bool `json:"interrupted"`
}

// agentState is how an agent stands.
type agentState struct {
	conversation.State
	// Transcript is what it remembers, without the oldest Omitted messages when it is too long to be sent.
	Transcript []llm.Message `json:"transcript,omitempty"`
	Omitted    int           `json:"omitted,omitempty"`
}

// offerSteering lets other nodes steer, interrupt and look at the agents of this one, as far as authorize does.
func (n *Node) offerSteering() error {
	one := func(more string) json.RawMessage {
		return json.RawMessage(`{"type":"object","required":["member"` + more + `],"properties":{"member":{"type":"string"},"text":{"type":"string"},"transcript":{"type":"boolean"}},"additionalProperties":false}`)
	}
	return errors.Join(
		n.community.Offer(community.Capability{Name: agentsSteer, Description: "Says something to an agent of this node while it works, and answers what became of it.", Input: one(`,"text"`)}, n.forAgent(agentsSteer, n.steered)),
		n.community.Offer(community.Capability{Name: agentsInterrupt, Description: "Ends the task that an agent of this node works on. The agent stays.", Input: one(""), Idempotent: true}, n.forAgent(agentsInterrupt, n.interrupted)),
		n.community.Offer(community.Capability{Name: agentsState, Description: "How an agent of this node stands: whether it works, what waits, and its transcript if wanted.", Input: one(""), Idempotent: true}, n.forAgent(agentsState, n.looked)),
	)
}

// forAgent answers a call about an agent.
func (n *Node) forAgent(name string, answer func(context.Context, agentJSON, community.Signal) (any, error)) community.Provider {
	return func(ctx context.Context, s community.Signal) (community.Reply, error) {
		reply, err := func() (community.Reply, error) {
			var a agentJSON
			if err := json.Unmarshal(s.Data, &a); err != nil {
				return community.Reply{}, fmt.Errorf("%w: %w", community.ErrInvalid, err)
			}
			out, err := answer(ctx, a, s)
			if err != nil {
				return community.Reply{}, steeringError(err)
			}
			data, err := json.Marshal(out)
			return community.Reply{Data: data, ContentType: "application/json"}, err
		}()
		n.served(ctx, name, s, err)
		return reply, err
	}
}

// steeringError is what another node may know of an error.
func steeringError(err error) error {
	for _, k := range []struct{ is, as error }{
		{conversation.ErrBusy, community.ErrBusy}, {community.ErrNotFound, community.ErrNotFound},
		{community.ErrInvalid, community.ErrInvalid}, {community.ErrTooLarge, community.ErrTooLarge},
	} {
		if errors.Is(err, k.is) {
			return community.Explain(k.as, err.Error())
		}
	}
	return err
}

// steered answers agents.steer. Before the call's time is over it takes back what the model was not given, so that
// the receipt still arrives.
func (n *Node) steered(ctx context.Context, a agentJSON, s community.Signal) (any, error) {
	inTime := ctx
	if at, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		inTime, cancel = context.WithDeadlineCause(ctx, at.Add(-steerMargin), errSteerTime)
		defer cancel()
	}
	r, err := n.factory.SteerFrom(inTime, a.Member, a.Text, s)
	if errors.Is(err, errSteerTime) {
		err = nil // the receipt says so
	}
	return r, err
}

var errSteerTime = errors.New("the model was not asked again in time")

func (n *Node) interrupted(_ context.Context, a agentJSON, _ community.Signal) (any, error) {
	err := n.factory.Interrupt(a.Member)
	if errors.Is(err, conversation.ErrIdle) {
		return interruptJSON{}, nil
	}
	return interruptJSON{Interrupted: true}, err
}

func (n *Node) looked(_ context.Context, a agentJSON, _ community.Signal) (any, error) {
	out, err := n.stateHere(a.Member, a.Transcript)
	if err != nil {
		return nil, err
	}
	room := n.opts.Config.Limits.Message / 2 // JSON in JSON grows
	for i := len(out.Transcript) - 1; i >= 0; i-- {
		data, err := json.Marshal(out.Transcript[i])
		if room -= len(data); err != nil || room < 0 {
			out.Transcript, out.Omitted = out.Transcript[i+1:], i+1
			break
		}
	}
	return out, nil
}

func (n *Node) stateHere(id community.MemberID, transcript bool) (out agentState, err error) {
	if out.State, err = n.factory.State(id); err != nil {
		return out, err
	}
	if transcript {
		said, err := n.factory.Transcript(id)
		if err != nil {
			return out, err
		}
		out.Transcript = llm.Request{Messages: said}.WithoutImages().Messages // it is read, not shown
	}
	return out, nil
}

// steer says something to an agent wherever it lives, and waits until it is clear what became of it; see
// agent.Factory.Steer. An error of another node: as community.Community.Invoke.
func (n *Node) steer(ctx context.Context, id community.MemberID, text string) (r conversation.Receipt, err error) {
	here, err := n.isHere(id)
	switch {
	case err != nil:
	case here:
		r, err = n.factory.Steer(ctx, id, text)
	default:
		err = n.askNode(ctx, id, agentsSteer, agentJSON{Member: id, Text: text}, &r)
	}
	return r, err
}

// interrupt ends the task that an agent works on, wherever it lives; conversation.ErrIdle: it has none.
func (n *Node) interrupt(ctx context.Context, id community.MemberID) error {
	here, err := n.isHere(id)
	if err != nil {
		return err
	}
	if here {
		return n.factory.Interrupt(id)
	}
	var did interruptJSON
	if err := n.askNode(ctx, id, agentsInterrupt, agentJSON{Member: id}, &did); err != nil {
		return err
	}
	if !did.Interrupted {
		return conversation.ErrIdle
	}
	return nil
}

// state is how an agent stands, wherever it lives.
func (n *Node) state(ctx context.Context, id community.MemberID, transcript bool) (out agentState, err error) {
	here, err := n.isHere(id)
	switch {
	case err != nil:
	case here:
		out, err = n.stateHere(id, transcript)
	default:
		err = n.askNode(ctx, id, agentsState, agentJSON{Member: id, Transcript: transcript}, &out)
	}
	return out, err
}

// isHere says whether a member lives on this node.
func (n *Node) isHere(id community.MemberID) (bool, error) {
	m, ok := n.community.Member(id)
	if !ok {
		return false, fmt.Errorf("no member %q: %w", id, community.ErrNotFound)
	}
	return m.Node == n.id, nil
}

// askNode has the node of a member answer one of the capabilities.
func (n *Node) askNode(ctx context.Context, id community.MemberID, capability string, ask agentJSON, into any) error {
	m, ok := n.community.Member(id)
	if !ok {
		return fmt.Errorf("no member %q: %w", id, community.ErrNotFound)
	}
	data, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	reply, err := n.community.Invoke(ctx, community.MemberID(m.Node), capability, community.Signal{Data: data, ContentType: "application/json", Requester: peer.Requester(ctx)})
	switch {
	case errors.Is(err, community.ErrDenied):
		return fmt.Errorf("%w\nNode %s has to let this one invoke %s: in its configuration, authorize: [{from: %q, invoke: [%q]}]", err, n.nodeName(m.Node), capability, n.id, capability)
	case errors.Is(err, community.ErrBusy):
		return fmt.Errorf("%w: %w", conversation.ErrBusy, err)
	case err != nil:
		return err
	}
	if err := json.Unmarshal(reply.Data, into); err != nil {
		return fmt.Errorf("the answer of node %s to %s is none: %w", n.nodeName(m.Node), capability, err)
	}
	return nil
}
