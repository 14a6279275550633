// Package steering controls agents while they work, on this node and on others:
// it adds a remark to a running task, interrupts the task, and reads the state
// of the agent. For agents of other nodes it calls the capabilities
// agents.steer, agents.interrupt, agents.state and agents.inspect of their
// node; rules of authorize must name them.
package steering

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"symbio/agent"
	"symbio/agent/conversation"
	"symbio/agent/llm"
	"symbio/community"
	"symbio/internal/agent/tool/peer"
	"symbio/internal/security/visible"
)

// Community is the part of *community.Community that a Controller uses.
type Community interface {
	Member(id community.MemberID) (community.Member, bool)
	Invoke(ctx context.Context, id community.MemberID, capability string, payload community.Signal) (community.Reply, error)
}

// Config sets up a Controller.
type Config struct {
	Node       community.NodeID
	Community  Community
	Agents     *agent.Factory // the agents of this node
	MaxMessage int            // largest message between nodes, in bytes
	NodeName   func(community.NodeID) string
}

// Controller controls agents of this node and of others. It has no state of its
// own and is safe for concurrent use.
type Controller struct{ cfg Config }

// New returns a Controller.
func New(cfg Config) *Controller { return &Controller{cfg} }

// The capabilities with which other nodes control the agents of this node.
// Their names and JSON are a wire format.
const (
	agentsSteer     = "agents.steer"
	agentsInterrupt = "agents.interrupt"
	agentsState     = "agents.state"
	agentsInspect   = "agents.inspect"
)

// steerMargin is the part of a call's time that is kept for the reply that a
// remark was withdrawn.
const steerMargin = 500 * time.Millisecond

// request has the arguments of all capabilities: the agent, the remark for it,
// and whether the transcript is wanted.
type request struct {
	Member     community.MemberID `json:"member"`
	Text       string             `json:"text,omitempty"`
	Transcript bool               `json:"transcript,omitempty"`
}

// interruptReply is the result of agents.interrupt. Interrupted is false if the
// agent had no task.
type interruptReply struct {
	Interrupted bool `json:"interrupted"`
}

// State is the state of an agent: whether it works, and what waits for it.
type State struct {
	conversation.State
	// Transcript has the messages that the agent remembers. If they are too
	// large to be sent, the oldest Omitted are missing.
	Transcript []llm.Message `json:"transcript,omitempty"`
	Omitted    int           `json:"omitted,omitempty"`
}

// Offer offers the capabilities to other nodes with the given function, which
// is the community or a wrapper of it.
func (d *Controller) Offer(offer func(community.Capability, community.Provider, ...community.OfferOption) error) error {
	one := func(more string) json.RawMessage {
		return json.RawMessage(`{"type":"object","required":["member"` + more + `],"properties":{"member":{"type":"string"},"text":{"type":"string"},"transcript":{"type":"boolean"}},"additionalProperties":false}`)
	}
	return errors.Join(
		offer(community.Capability{Name: agentsSteer, Description: "Adds a remark to the running task of an agent of this node, and returns what happened to it.", Input: one(`,"text"`)}, decodeRequest(d.serveSteer)),
		offer(community.Capability{Name: agentsInterrupt, Description: "Ends the running task of an agent of this node. The agent stays.", Input: one(""), Idempotent: true}, decodeRequest(d.serveInterrupt)),
		offer(community.Capability{Name: agentsState, Description: "The state of an agent of this node: whether it works, what waits, and its transcript if wanted.", Input: one(""), Idempotent: true}, decodeRequest(d.serveState)),
		offer(community.Capability{Name: agentsInspect, Description: "What the model of an agent of this node was shown last, by part, with sizes.", Input: one(""), Idempotent: true}, decodeRequest(d.serveInspect)),
	)
}

// decodeRequest returns a provider that decodes the request, calls answer and
// encodes its result.
func decodeRequest(answer func(context.Context, request, community.Signal) (any, error)) community.Provider {
	return func(ctx context.Context, s community.Signal) (community.Reply, error) {
		var r request
		if err := json.Unmarshal(s.Data, &r); err != nil {
			return community.Reply{}, fmt.Errorf("%w: %w", community.ErrInvalid, err)
		}
		out, err := answer(ctx, r, s)
		if err != nil {
			return community.Reply{}, steeringError(err)
		}
		data, err := json.Marshal(out)
		return community.Reply{Data: data, ContentType: "application/json"}, err
	}
}

// steeringError returns the part of an error that another node may see: errors
// of a known kind keep their text, others do not.
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

// serveSteer answers agents.steer. If the model has not received the remark
// steerMargin before the end of the call, it withdraws the remark, so that the
// caller still learns that it had no effect.
func (d *Controller) serveSteer(ctx context.Context, a request, s community.Signal) (any, error) {
	inTime := ctx
	if at, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		inTime, cancel = context.WithDeadlineCause(ctx, at.Add(-steerMargin), errSteerTime)
		defer cancel()
	}
	r, err := d.cfg.Agents.SteerFrom(inTime, a.Member, a.Text, s)
	if errors.Is(err, errSteerTime) {
		err = nil // the receipt says so
	}
	return r, err
}

// errSteerTime is the cause of a withdrawal by time.
var errSteerTime = errors.New("the model was not asked again in time")

// serveInterrupt answers agents.interrupt.
func (d *Controller) serveInterrupt(_ context.Context, a request, _ community.Signal) (any, error) {
	err := d.cfg.Agents.Interrupt(a.Member)
	if errors.Is(err, conversation.ErrIdle) {
		return interruptReply{}, nil
	}
	return interruptReply{Interrupted: true}, err
}

// serveState answers agents.state. The transcript is cut to half of a message,
// because it is encoded as JSON inside JSON.
func (d *Controller) serveState(_ context.Context, a request, _ community.Signal) (any, error) {
	out, err := d.local(a.Member, a.Transcript)
	if err != nil {
		return nil, err
	}
	room := d.cfg.MaxMessage / 2
	for i := len(out.Transcript) - 1; i >= 0; i-- {
		data, err := json.Marshal(out.Transcript[i])
		if room -= len(data); err != nil || room < 0 {
			out.Transcript, out.Omitted = out.Transcript[i+1:], i+1
			break
		}
	}
	return out, nil
}

// serveInspect answers agents.inspect.
func (d *Controller) serveInspect(_ context.Context, a request, _ community.Signal) (any, error) {
	return d.inspect(a.Member)
}

// maxInspection is the largest result of Inspect, in bytes of JSON. The control
// socket carries up to 4 MiB.
const maxInspection = 1 << 20

// inspect returns the parts of the last request to the model of an agent of
// this node. It halves the longest texts until the result fits into a message.
func (d *Controller) inspect(id community.MemberID) ([]conversation.InspectedPart, error) {
	parts, err := d.cfg.Agents.Inspect(id)
	if err != nil {
		return nil, err
	}
	longest := 0
	for _, p := range parts {
		longest = max(longest, len(p.Text))
	}
	for {
		data, err := json.Marshal(parts)
		if err != nil || longest == 0 || len(data) <= min(d.cfg.MaxMessage/2, maxInspection) { // JSON in JSON grows
			return parts, err
		}
		longest /= 2
		for i, p := range parts {
			text := visible.Prefix(p.Text, longest)
			parts[i].Text, parts[i].Omitted = text, p.Omitted+len(p.Text)-len(text)
		}
	}
}

// local returns the state of an agent of this node. Images are left out of the
// transcript.
func (d *Controller) local(id community.MemberID, transcript bool) (out State, err error) {
	if out.State, err = d.cfg.Agents.State(id); err != nil {
		return out, err
	}
	if transcript {
		said, err := d.cfg.Agents.Transcript(id)
		if err != nil {
			return out, err
		}
		out.Transcript = llm.Request{Messages: said}.WithoutImages().Messages
	}
	return out, nil
}

// Steer adds a remark to the task of an agent, on any node, and waits until the
// outcome is known; see agent.Factory.Steer. For an agent of another node it
// returns the errors of community.Community.Invoke. A full queue is
// conversation.ErrBusy.
func (d *Controller) Steer(ctx context.Context, id community.MemberID, text string) (conversation.Receipt, error) {
	return at(ctx, d, agentsSteer, request{Member: id, Text: text}, func() (conversation.Receipt, error) { return d.cfg.Agents.Steer(ctx, id, text) })
}

// Interrupt ends the running task of an agent, on any node. It returns
// conversation.ErrIdle if the agent has none.
func (d *Controller) Interrupt(ctx context.Context, id community.MemberID) error {
	did, err := at(ctx, d, agentsInterrupt, request{Member: id}, func() (interruptReply, error) { return interruptReply{Interrupted: true}, d.cfg.Agents.Interrupt(id) })
	if err == nil && !did.Interrupted {
		return conversation.ErrIdle
	}
	return err
}

// State returns the state of an agent, on any node, with its messages if
// transcript is set.
func (d *Controller) State(ctx context.Context, id community.MemberID, transcript bool) (State, error) {
	return at(ctx, d, agentsState, request{Member: id, Transcript: transcript}, func() (State, error) { return d.local(id, transcript) })
}

// Inspect returns the parts of the last request to the model of an agent, on
// any node. Long texts are cut; Omitted says by how many bytes.
func (d *Controller) Inspect(ctx context.Context, id community.MemberID) ([]conversation.InspectedPart, error) {
	return at(ctx, d, agentsInspect, request{Member: id}, func() ([]conversation.InspectedPart, error) { return d.inspect(id) })
}

// at returns what local returns for an agent of this node, and what the capability returns for an
// agent of another one. An unknown agent is
// community.ErrNotFound.
func at[T any](ctx context.Context, d *Controller, capability string, ask request, local func() (T, error)) (out T, err error) {
	m, ok := d.cfg.Community.Member(ask.Member)
	switch {
	case !ok:
		return out, fmt.Errorf("no member %q: %w", ask.Member, community.ErrNotFound)
	case m.Node == d.cfg.Node:
		return local()
	}
	err = d.invokeOn(ctx, m, capability, ask, &out)
	return out, err
}

// invokeOn calls a capability of the member's node and decodes the result. It
// passes on the requester of ctx, so that the rules of every node on whose
// behalf the call is made apply.
func (d *Controller) invokeOn(ctx context.Context, m community.Member, capability string, ask request, into any) error {
	data, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	reply, err := d.cfg.Community.Invoke(ctx, community.MemberID(m.Node), capability,
		community.Signal{Data: data, ContentType: "application/json", Requester: peer.Requester(ctx)})
	switch {
	case errors.Is(err, community.ErrDenied):
		return fmt.Errorf("%w\nNode %s does not let this node invoke %s; add to its configuration: authorize: [{from: %q, invoke: [%q]}]", err, d.cfg.NodeName(m.Node), capability, d.cfg.Node, capability)
	case errors.Is(err, community.ErrBusy):
		return fmt.Errorf("%w: %w", conversation.ErrBusy, err)
	case err != nil:
		return err
	}
	if err := json.Unmarshal(reply.Data, into); err != nil {
		return fmt.Errorf("cannot decode the answer of node %s to %s: %w", d.cfg.NodeName(m.Node), capability, err)
	}
	return nil
}

// MaxShown is the number of messages of a transcript that people are sent, the
// latest ones.
const MaxShown = 200

// The longest text of a message, and of a tool's arguments or result, in a
// transcript that is sent. They are in runes, and long enough to recognise the
// text.
const (
	maxTextRunes = 4000
	maxToolRunes = 400
)

// Shorten returns copies of messages for people: long texts are cut, images and
// thoughts are left out.
func Shorten(all []llm.Message) []llm.Message {
	out := make([]llm.Message, len(all))
	for i, m := range all {
		out[i] = llm.Message{Role: m.Role, Text: visible.TruncateRunes(m.Text, maxTextRunes)}
		for _, c := range m.Calls {
			if len(c.Args) > maxToolRunes {
				c.Args = shortenArgs(c.Args)
			}
			out[i].Calls = append(out[i].Calls, c)
		}
		for _, r := range m.Results {
			out[i].Results = append(out[i].Results, llm.ToolResult{CallID: r.CallID, Name: r.Name, Text: visible.TruncateRunes(r.Text, maxToolRunes), IsError: r.IsError})
		}
	}
	return out
}

// shortenArgs cuts each text of the arguments, so that the others stay. If that is not enough it cuts the whole, to a JSON
// string.
func shortenArgs(args json.RawMessage) json.RawMessage {
	var of map[string]any
	if json.Unmarshal(args, &of) == nil {
		for name, value := range of {
			if text, ok := value.(string); ok {
				of[name] = visible.TruncateRunes(text, maxToolRunes/2)
			}
		}
		if short, err := json.Marshal(of); err == nil && len(short) <= 4*maxToolRunes {
			return short
		}
	}
	return llm.Args(visible.TruncateRunes(string(args), maxToolRunes))
}
