package tasks

import (
	"cmp"
	"context"
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
// the agent is also bound by the permissions of the requester.
func (s *Spawner) Provider(c config.Capability, def definition.Definition) community.Provider {
	return func(ctx context.Context, task community.Signal) (community.Reply, error) {
		limits := s.Limits
		limits.Wall = cmp.Or(c.Timeout, limits.Wall)
		if c.Input != nil {
			task.OnBehalf = nil
		}
		a, err := s.Do(ctx, agent.Order{Definition: def, Limits: limits}, task)
		return a.reply(), err
	}
}

// Answer is what an agent answered to a task, and what the task took.
type Answer struct {
	// Text is the answer: a JSON document if the definition has an Output.
	Text string
	// Spent is what the task used, with all sub-agents.
	Spent budget.Spent
	// Agent is the agent, which has ended, and Session the id of its conversation; "" = none is kept.
	Agent       community.MemberID
	Session     string
	contentType string // of Text
}

// String returns the text.
func (a Answer) String() string { return a.Text }

// reply returns the answer as the answer of a capability.
func (a Answer) reply() community.Reply {
	return community.Reply{Data: []byte(a.Text), ContentType: a.contentType}
}

// Do spawns an agent and has it Finish a task.
func (s *Spawner) Do(ctx context.Context, o agent.Order, task community.Signal) (Answer, error) {
	m, err := s.Spawn(ctx, o)
	if err != nil {
		return Answer{}, err
	}
	return s.Finish(ctx, m, task)
}

// Finish sends an agent a task and terminates it. Beside an error the Answer has what the task took. An error is
// ErrAgentFailed even if the signal was refused: otherwise the caller would send the task to another
// node, too.
func (s *Spawner) Finish(ctx context.Context, m community.Member, task community.Signal) (Answer, error) {
	task.Perception = m.Accepts[0]
	reply, err := s.Community.Send(ctx, m.ID, task)
	if community.NotBegun(err) {
		err = fmt.Errorf("%w: %v", community.ErrAgentFailed, err)
	}
	a := Answer{Text: string(reply.Data), Agent: m.ID, Session: s.Factory.Session(m.ID).ID, contentType: reply.ContentType}
	a.Spent, _ = s.Factory.Spent(m.ID)
	endCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if endErr := s.Community.Terminate(endCtx, m.ID); endErr != nil {
		s.Logger.Warn("agent of a task not terminated", "agent", m.ID, "err", endErr)
	}
	return a, err
}
