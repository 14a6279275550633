// Package steering reaches agents while they work, wherever they live: it says something to one, ends its task, and looks at how
// it stands. Nodes do so for each other by capabilities; authorize says which node may.
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
	"symbio/agent/tool/peer"
	"symbio/community"
	"symbio/security/visible"
)

// Community is what a Desk needs of the node's community; *community.Community is one.
type Community interface {
	Member(id community.MemberID) (community.Member, bool)
	Invoke(ctx context.Context, id community.MemberID, capability string, payload community.Signal) (community.Reply, error)
}

// Config sets up a Desk.
type Config struct {
	Node       community.NodeID
	Community  Community
	Agents     *agent.Factory // those of this node
	MaxMessage int            // bytes of a message between nodes
	NodeName   func(community.NodeID) string
}

// Desk steers agents of this node and of others. It is safe for concurrent use.
type Desk struct{ cfg Config }

// New returns a Desk.
func New(cfg Config) *Desk { return &Desk{cfg} }

// The capabilities by which other nodes reach the agents of this one while they work. Who may is for authorize to say.
const (
	agentsSteer     = "agents.steer"
	agentsInterrupt = "agents.interrupt"
	agentsState     = "agents.state"
	agentsInspect   = "agents.inspect"
)

// steerMargin is what is left of a call's time to tell that what was said was withdrawn.
const steerMargin = 500 * time.Millisecond

// request is what the capabilities take: which agent, what to say to it, and whether its transcript is wanted.
type request struct {
	Member     community.MemberID `json:"member"`
	Text       string             `json:"text,omitempty"`
	Transcript bool               `json:"transcript,omitempty"`
}

// interruption is what agents.interrupt answers: false when the agent had no task.
type interruption struct {
	Interrupted bool `json:"interrupted"`
}

// State is how an agent stands.
type State struct {
	conversation.State
	// Transcript is what it remembers, without the oldest Omitted messages when it is too long to be sent.
	Transcript []llm.Message `json:"transcript,omitempty"`
	Omitted    int           `json:"omitted,omitempty"`
}

// Offer lets other nodes steer, interrupt and look at the agents of this one, as far as authorize does.
func (d *Desk) Offer(offer func(community.Capability, community.Provider, ...community.OfferOption) error) error {
	one := func(more string) json.RawMessage {
		return json.RawMessage(`{"type":"object","required":["member"` + more + `],"properties":{"member":{"type":"string"},"text":{"type":"string"},"transcript":{"type":"boolean"}},"additionalProperties":false}`)
	}
	return errors.Join(
		offer(community.Capability{Name: agentsSteer, Description: "Says something to an agent of this node while it works, and answers what became of it.", Input: one(`,"text"`)}, forAgent(d.serveSteer)),
		offer(community.Capability{Name: agentsInterrupt, Description: "Ends the task that an agent of this node works on. The agent stays.", Input: one(""), Idempotent: true}, forAgent(d.serveInterrupt)),
		offer(community.Capability{Name: agentsState, Description: "How an agent of this node stands: whether it works, what waits, and its transcript if wanted.", Input: one(""), Idempotent: true}, forAgent(d.serveState)),
		offer(community.Capability{Name: agentsInspect, Description: "What the model of an agent of this node was shown last, by part, with sizes.", Input: one(""), Idempotent: true}, forAgent(d.serveInspect)),
	)
}

// forAgent answers a call about an agent.
func forAgent(answer func(context.Context, request, community.Signal) (any, error)) community.Provider {
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

// serveSteer answers agents.steer. Before the call's time is over it takes back what the model was not given, so that
// the receipt still arrives.
func (d *Desk) serveSteer(ctx context.Context, a request, s community.Signal) (any, error) {
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

var errSteerTime = errors.New("the model was not asked again in time")

func (d *Desk) serveInterrupt(_ context.Context, a request, _ community.Signal) (any, error) {
	err := d.cfg.Agents.Interrupt(a.Member)
	if errors.Is(err, conversation.ErrIdle) {
		return interruption{}, nil
	}
	return interruption{Interrupted: true}, err
}

func (d *Desk) serveState(_ context.Context, a request, _ community.Signal) (any, error) {
	out, err := d.local(a.Member, a.Transcript)
	if err != nil {
		return nil, err
	}
	room := d.cfg.MaxMessage / 2 // JSON in JSON grows
	for i := len(out.Transcript) - 1; i >= 0; i-- {
		data, err := json.Marshal(out.Transcript[i])
		if room -= len(data); err != nil || room < 0 {
			out.Transcript, out.Omitted = out.Transcript[i+1:], i+1
			break
		}
	}
	return out, nil
}

func (d *Desk) serveInspect(_ context.Context, a request, _ community.Signal) (any, error) {
	return d.inspect(a.Member)
}

// maxInspection limits what Inspect returns, in bytes of JSON; the control socket carries up to 4 MiB.
const maxInspection = 1 << 20

// inspect returns what the model of an agent of this node was shown. The longest texts are cut until all fits into a message.
func (d *Desk) inspect(id community.MemberID) ([]conversation.Shown, error) {
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

func (d *Desk) local(id community.MemberID, transcript bool) (out State, err error) {
	if out.State, err = d.cfg.Agents.State(id); err != nil {
		return out, err
	}
	if transcript {
		said, err := d.cfg.Agents.Transcript(id)
		if err != nil {
			return out, err
		}
		out.Transcript = llm.Request{Messages: said}.WithoutImages().Messages // it is read, not shown
	}
	return out, nil
}

// Steer says something to an agent wherever it lives, and waits until it is clear what became of it; see
// agent.Factory.Steer. An error of another node: as community.Community.Invoke.
func (d *Desk) Steer(ctx context.Context, id community.MemberID, text string) (r conversation.Receipt, err error) {
	here, err := d.isLocal(id)
	switch {
	case err != nil:
	case here:
		r, err = d.cfg.Agents.Steer(ctx, id, text)
	default:
		err = d.askNode(ctx, id, agentsSteer, request{Member: id, Text: text}, &r)
	}
	return r, err
}

// Interrupt ends the task that an agent works on, wherever it lives; conversation.ErrIdle: it has none.
func (d *Desk) Interrupt(ctx context.Context, id community.MemberID) error {
	here, err := d.isLocal(id)
	if err != nil {
		return err
	}
	if here {
		return d.cfg.Agents.Interrupt(id)
	}
	var did interruption
	if err := d.askNode(ctx, id, agentsInterrupt, request{Member: id}, &did); err != nil {
		return err
	}
	if !did.Interrupted {
		return conversation.ErrIdle
	}
	return nil
}

// State is how an agent stands, wherever it lives.
func (d *Desk) State(ctx context.Context, id community.MemberID, transcript bool) (out State, err error) {
	here, err := d.isLocal(id)
	switch {
	case err != nil:
	case here:
		out, err = d.local(id, transcript)
	default:
		err = d.askNode(ctx, id, agentsState, request{Member: id, Transcript: transcript}, &out)
	}
	return out, err
}

// Inspect returns by part what the model of an agent was shown last, wherever the agent lives. Texts that are too long to be sent
// are shortened.
func (d *Desk) Inspect(ctx context.Context, id community.MemberID) (parts []conversation.Shown, err error) {
	here, err := d.isLocal(id)
	switch {
	case err != nil:
	case here:
		parts, err = d.inspect(id)
	default:
		err = d.askNode(ctx, id, agentsInspect, request{Member: id}, &parts)
	}
	return parts, err
}

// isLocal says whether a member lives on this node.
func (d *Desk) isLocal(id community.MemberID) (bool, error) {
	m, ok := d.cfg.Community.Member(id)
	if !ok {
		return false, fmt.Errorf("no member %q: %w", id, community.ErrNotFound)
	}
	return m.Node == d.cfg.Node, nil
}

// askNode has the node of a member answer one of the capabilities.
func (d *Desk) askNode(ctx context.Context, id community.MemberID, capability string, ask request, into any) error {
	m, ok := d.cfg.Community.Member(id)
	if !ok {
		return fmt.Errorf("no member %q: %w", id, community.ErrNotFound)
	}
	data, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	reply, err := d.cfg.Community.Invoke(ctx, community.MemberID(m.Node), capability, community.Signal{Data: data, ContentType: "application/json", Requester: peer.Requester(ctx)})
	switch {
	case errors.Is(err, community.ErrDenied):
		return fmt.Errorf("%w\nNode %s has to let this one invoke %s: in its configuration, authorize: [{from: %q, invoke: [%q]}]", err, d.cfg.NodeName(m.Node), capability, d.cfg.Node, capability)
	case errors.Is(err, community.ErrBusy):
		return fmt.Errorf("%w: %w", conversation.ErrBusy, err)
	case err != nil:
		return err
	}
	if err := json.Unmarshal(reply.Data, into); err != nil {
		return fmt.Errorf("the answer of node %s to %s is none: %w", d.cfg.NodeName(m.Node), capability, err)
	}
	return nil
}
