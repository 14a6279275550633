// Package replicate holds the tool by which a model makes more agents of a kind: replicate_agent.
//
// The tool is for any community.Replicator, such as an agent written in Go. Agents with a model
// have one of their own in its place, with tasks and shares of a budget: package team.
package replicate

import (
	"context"
	"fmt"

	_ "embed"

	"symbio/agent/tool"
	"symbio/community"
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

// Tool returns replicate_agent for an agent. Calls run one after the other, so that agents are made
// in the order in which the model asked for them.
func Tool(agent community.Replicator) tool.Tool {
	return tool.New(tool.Spec{Name: Name, Description: description, Alone: true}, func(ctx context.Context, a args) tool.Result {
		m, err := agent.Replicate(ctx, community.Replica{Name: a.Name, Reason: a.Reason})
		if err != nil {
			return tool.Result{Text: fmt.Sprintf("no agent was spawned: %v", err), IsError: true}
		}
		return tool.JSON(struct {
			Success bool `json:"success"`
			Replica
		}{true, SpawnedAs(m)})
	})
}
