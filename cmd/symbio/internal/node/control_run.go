package node

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"symbio/agent"
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

// Run spawns an agent for one task, shows what it and its sub-agents do, and ends it.
func (c *control) Run(r *symbiov1.RunRequest, stream symbiov1.Control_RunServer) error {
	ctx, n := stream.Context(), c.node
	order, err := c.order(ctx, r)
	if err != nil {
		return toStatus(err)
	}
	tap := n.events.Subscribe(time.Time{})
	defer tap.Close()
	tree := &tree{members: map[string]bool{}}
	if r.GetInteractive() {
		order.Ask = n.ask
	}
	member, err := n.factory.Spawn(ctx, order)
	if err != nil {
		return toStatus(err)
	}
	tree.members[string(member.ID)] = true
	result, err := c.work(ctx, r.GetTask(), member, func(followCtx context.Context) error { return follow(followCtx, tap, tree, stream) })
	// The agent ends with its task, whatever became of it, and also when nobody waits any longer.
	endCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if endErr := n.community.Terminate(endCtx, member.ID); endErr != nil && !errors.Is(endErr, community.ErrNotFound) {
		n.log.Warn("agent of a task not terminated", "agent", member.ID, "err", endErr)
	}
	if err != nil {
		return toStatus(err)
	}
	data, err := json.Marshal(result)
	if err != nil {
		return toStatus(err)
	}
	return stream.Send(&symbiov1.Event{Time: timestamppb.Now(), Type: "result", Node: n.name, Agent: string(member.ID), Data: data})
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
	b := r.GetBudget()
	for _, limit := range []struct {
		to   *int
		want uint32
	}{{&o.Limits.Depth, b.GetDepth()}, {&o.Limits.Agents, b.GetAgents()}, {&o.Limits.SpawnsPerMinute, b.GetSpawnsPerMinute()}} {
		if limit.want > 0 {
			*limit.to = int(limit.want)
		}
	}
	if wall := b.GetWall().AsDuration(); wall > 0 {
		o.Limits.Wall = wall
	}
	return o, nil
}

// result is the last event of a run.
type result struct {
	Text   string `json:"text"`
	Status string `json:"status"` // done, failed, interrupted
	Error  string `json:"error,omitempty"`
}

// work gives the agent its task and shows events until it is done. The error is one of showing them.
func (c *control) work(ctx context.Context, task string, member community.Member, show func(context.Context) error) (result, error) {
	data, err := json.Marshal(task)
	if err != nil {
		return result{}, err
	}
	var r result
	workCtx, interrupt := context.WithCancel(ctx)
	defer interrupt()
	showCtx, done := context.WithCancel(ctx)
	var g errgroup.Group
	g.Go(func() error {
		defer done()
		reply, err := c.node.community.Send(workCtx, member.ID, community.Signal{Perception: member.Accepts[0], Data: data})
		switch {
		case err == nil:
			r = result{Text: string(reply.Data), Status: "done"}
		case workCtx.Err() != nil:
			r = result{Status: "interrupted", Error: err.Error()}
		default:
			r = result{Status: "failed", Error: err.Error()}
		}
		return nil
	})
	g.Go(func() error {
		err := show(showCtx)
		if err != nil {
			interrupt()
		}
		return err
	})
	err = g.Wait()
	return r, err
}

// follow sends the events of a tree of agents until ctx ends, and then those that are left.
func follow(ctx context.Context, tap *Tap, tree *tree, stream grpc.ServerStreamingServer[symbiov1.Event]) error {
	for {
		e, err := tap.Next(ctx)
		if err != nil {
			return rest(tap, tree, stream)
		}
		if tree.has(e) {
			if err := stream.Send(toWire(e)); err != nil {
				return err
			}
		}
	}
}

func rest(tap *Tap, tree *tree, stream grpc.ServerStreamingServer[symbiov1.Event]) error {
	for {
		e, ok := tap.take()
		if !ok {
			return nil
		}
		if tree.has(e) {
			if err := stream.Send(toWire(e)); err != nil {
				return err
			}
		}
	}
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
