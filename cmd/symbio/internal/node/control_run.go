package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"symbio/agent"
	"symbio/agent/conversation"
	"symbio/agent/tool"
	"symbio/community"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/permission"
)

func (c *control) Events(r *symbiov1.EventsRequest, stream symbiov1.Control_EventsServer) error {
	var since time.Time
	if r.GetSince() != nil {
		since = r.GetSince().AsTime()
	}
	tap := c.node.events.Subscribe(since)
	defer tap.Close()
	for {
		e, err := tap.Next(stream.Context())
		if err != nil {
			return toStatus(err)
		}
		if len(r.GetTypes()) > 0 && !slices.Contains(r.GetTypes(), e.Type) && e.Type != "gap" {
			continue
		}
		if r.GetAgent() != "" && e.Agent != r.GetAgent() && c.node.memberName(e) != r.GetAgent() {
			continue
		}
		if err := stream.Send(toWire(e)); err != nil {
			return err
		}
	}
}

func toWire(e Event) *symbiov1.Event {
	return &symbiov1.Event{Time: timestamppb.New(e.Time), Type: e.Type, Node: e.Node, Agent: e.Agent, Data: e.Data}
}

// Run is a conversation of one message.
func (c *control) Run(r *symbiov1.RunRequest, stream symbiov1.Control_RunServer) error {
	if r.GetTask() == "" {
		return toStatus(fmt.Errorf("%w: there is no task", errWrong))
	}
	return c.converse(stream.Context(), r, nil, stream.Send)
}

// order is what a request asks for, within what the configuration allows.
func (c *control) order(ctx context.Context, r *symbiov1.RunRequest) (agent.Order, error) {
	def, err := c.node.definition(r.GetAgent())
	if err != nil {
		return agent.Order{}, err
	}
	o := agent.Order{Definition: def, Policy: c.node.policy, Limits: c.node.opts.Config.Budget}
	if r.GetModel() != "" {
		if o.Model, err = c.node.model(ctx, r.GetModel()); err != nil {
			return agent.Order{}, err
		}
	}
	o.Policy.Allow = slices.Clone(o.Policy.Allow)
	for _, text := range r.GetAllow() {
		rule, err := permission.ParseRule(text)
		if err != nil {
			return agent.Order{}, errors.Join(errWrong, err)
		}
		o.Policy.Allow = append(o.Policy.Allow, rule)
	}
	o.Limits = limitsOf(o.Limits, r.GetBudget())
	return o, nil
}

// result is the last event of a run, and of each turn of a conversation.
type result struct {
	Text   string `json:"text"`
	Status string `json:"status"` // done, failed, interrupted
	Error  string `json:"error,omitempty"`
	// Spent is what the agent and its sub-agents have used for it.
	Spent *agent.Spent `json:"spent,omitempty"`
	Over  bool         `json:"over,omitempty"` // the agent is gone: nothing that is said is answered any more
}

// turn gives the agent its task and waits until it is done.
func (c *control) turn(ctx context.Context, task string, member community.Member) result {
	data, err := json.Marshal(task)
	if err != nil {
		return result{Status: "failed", Error: err.Error()}
	}
	reply, err := c.node.community.Send(ctx, member.ID, community.Signal{Perception: member.Accepts[0], Data: data})
	r := result{Text: string(reply.Data), Status: "done"}
	var over *agent.OverBudget
	switch {
	case err == nil:
	case ctx.Err() != nil || errors.Is(err, conversation.ErrInterrupted):
		r.Status, r.Error = "interrupted", err.Error()
	case errors.As(err, &over):
		r.Text, r.Status, r.Error = over.Said, "failed", overBudget(over)
	default:
		r.Status, r.Error, r.Over = "failed", err.Error(), errors.Is(err, community.ErrNotFound)
	}
	if spent, ok := c.node.factory.Spent(member.ID); ok {
		r.Spent = &spent
	}
	return r
}

// tree knows an agent and its descendants by the events in which they appear.
type tree struct {
	members map[string]bool
}

func (t *tree) has(e Event) bool {
	if e.Type == "gap" || t.members[e.Agent] {
		return true
	}
	var f struct{ Parent string }
	if json.Unmarshal(e.Data, &f) == nil && t.members[f.Parent] {
		t.members[e.Agent] = true
		return true
	}
	return false
}

// ask puts a decision to a person.
func (n *Node) ask(ctx context.Context, asked agent.Asked) tool.Answer {
	return n.approvals.ask(ctx, n.events, asked)
}

// unattended is ask for agents that nobody watches; nil unless they may wait, too.
func (n *Node) unattended() func(context.Context, agent.Asked) tool.Answer {
	if !n.opts.Config.Approvals.Unattended {
		return nil
	}
	return n.ask
}
