package tasks

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"symbio/agent"
	"symbio/agent/budget"
	"symbio/agent/definition"
	"symbio/agent/node/config"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/security/permission"
)

// endTimeout bounds the end of the agent of a task. After it, the agent is abandoned.
const endTimeout = 5 * time.Second

// Spawner spawns agents with the rules, the budget and the approvals of the node where an order has none of its own.
type Spawner struct {
	*agent.Factory
	Community   *community.Community
	Definitions definition.Set
	Rules       func() permission.Policy
	Limits      budget.Limits
	// Ask asks a person about calls of agents without a terminal; nil = those calls are denied.
	Ask    func(context.Context, agent.ApprovalRequest) tool.Answer
	Logger *slog.Logger
}

// Spawn spawns an agent, which lives until it is terminated or the node stops.
func (s *Spawner) Spawn(ctx context.Context, o agent.Order) (community.Member, error) {
	if o.Rules == nil {
		o.Rules = s.Rules
	}
	o.Limits = cmp.Or(o.Limits, s.Limits)
	if o.Ask == nil {
		o.Ask = s.Ask
	}
	return s.Factory.Spawn(ctx, o)
}

// Provider returns a provider that spawns an agent for each call, with the
// arguments as its task. With an input schema the capability is a service: its
// arguments are checked, and the agent uses its own permissions. Without one,
// the agent is also bound by the permissions of the requester (security.md
// 7.3).
func (s *Spawner) Provider(c config.Capability, def definition.Definition) community.Provider {
	return func(ctx context.Context, task community.Signal) (community.Reply, error) {
		limits := s.Limits
		limits.Wall = cmp.Or(c.Timeout, limits.Wall)
		if c.Input != nil {
			task.OnBehalf = nil
		}
		reply, _, err := s.Do(ctx, agent.Order{Definition: def, Limits: limits}, task)
		if err == nil && c.Output != nil {
			reply = asJSON(reply)
		}
		return reply, err
	}
}

// Do spawns an agent, sends it a task and terminates it. It returns what the agent used, too. An error after
// the spawn is ErrAgentFailed even if the signal was refused: otherwise the
// caller would send the task to another node, too.
func (s *Spawner) Do(ctx context.Context, o agent.Order, task community.Signal) (community.Reply, budget.Spent, error) {
	m, err := s.Spawn(ctx, o)
	if err != nil {
		return community.Reply{}, budget.Spent{}, err
	}
	task.Perception = m.Accepts[0]
	reply, err := s.Community.Send(ctx, m.ID, task)
	if community.NotBegun(err) {
		err = fmt.Errorf("%w: %v", community.ErrAgentFailed, err)
	}
	spent, _ := s.Factory.Spent(m.ID)
	endCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if endErr := s.Community.Terminate(endCtx, m.ID); endErr != nil {
		s.Logger.Warn("agent of a task not terminated", "agent", m.ID, "err", endErr)
	}
	return reply, spent, err
}

// asJSON returns the reply of an agent as JSON: as it is if it is JSON, without
// a Markdown code block around it, else as a JSON string. The schema check of
// the community decides whether it fits.
func asJSON(r community.Reply) community.Reply {
	text := bytes.TrimSpace(r.Data)
	if inner, ok := bytes.CutPrefix(text, []byte("```json")); ok {
		text = bytes.TrimSpace(bytes.TrimSuffix(inner, []byte("```")))
	}
	if !json.Valid(text) {
		quoted, err := json.Marshal(string(r.Data))
		if err != nil {
			return r
		}
		text = quoted
	}
	return community.Reply{Data: text, ContentType: "application/json"}
}
