// Package replicate holds the tools by which a model makes more agents of a kind, and gives them work:
// replicate_agent, find_members and send_signal.
//
// The tools are for any community.Replicator, such as an agent written in Go. Agents with a model
// have others in their place, with tasks and shares of a budget: package team.
package replicate

import (
	"context"
	"fmt"
	"slices"
	"sync"

	_ "embed"

	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/agent/tool/peer"
)

// Name is the name of the tool.
const Name = "replicate_agent"

//go:embed replicate_agent.md
var description string

type args struct {
	Reason string `json:"reason" jsonschema:"why a sub-agent is needed, in a sentence"`
	Name   string `json:"name,omitempty" jsonschema:"a short name for it: letters, digits, dots, hyphens"`
}

// Replica is a new agent as the model reads of it.
type Replica struct {
	AgentID community.MemberID `json:"agent_id,omitempty"`
	Name    string             `json:"name"`
	Accepts []string           `json:"accepts,omitempty"`
}

// SpawnedAs returns a member as the model reads of it.
func SpawnedAs(m community.Member) Replica { return Replica{m.ID, m.Name, m.Accepts} }

// Tools returns replicate_agent for an agent of c, and the tools with which the model talks to the agents
// that it makes with it, and to no others: find_members and send_signal. Calls of replicate_agent run one
// after the other, so that agents are made in the order in which the model asked for them.
func Tools(c *community.Community, agent community.Replicator) []tool.Tool {
	r := &replicas{Community: c, agent: agent}
	spawn := tool.New(tool.Spec{Name: Name, Description: description, Alone: true}, r.replicate)
	return append(peer.SignalTools(r, community.Member{Node: c.Node()}), spawn)
}

// replicas are the agents that a model made, and the community as far as its tools see it. It is safe for
// concurrent use.
type replicas struct {
	*community.Community
	agent community.Replicator
	made  sync.Map // the ids, as keys
}

// result is what the model reads.
type result struct {
	Success bool `json:"success"`
	Replica
}

func (r *replicas) replicate(ctx context.Context, a args) tool.Result {
	m, err := r.agent.Replicate(ctx, community.Replica{Name: a.Name, Reason: a.Reason})
	if err != nil {
		return tool.Result{Text: fmt.Sprintf("no agent was spawned: %v", err), IsError: true}
	}
	r.made.Store(m.ID, true)
	return tool.JSON(result{true, SpawnedAs(m)})
}

// Members returns the agents that the model made and that still live.
func (r *replicas) Members() []community.Member {
	return slices.DeleteFunc(r.Community.Members(), func(m community.Member) bool {
		_, made := r.made.Load(m.ID)
		return !made
	})
}
