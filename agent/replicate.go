package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	_ "embed"

	"symbio/agent/tool"
	"symbio/community"
	"symbio/security/permission"
)

//go:embed replicate_agent.md
var replicateText string

// replicateArgs are what a model says of a copy it wants (spec: swiftagent.md, ReplicateTool).
type replicateArgs struct {
	Reason string   `json:"reason" jsonschema:"why a sub-agent is needed, in a sentence"`
	Name   string   `json:"name,omitempty" jsonschema:"a short name for it: letters, digits, dots, hyphens"`
	Tools  []string `json:"tools,omitempty" jsonschema:"the tools it may use, a part of your own; absent = all of yours"`
}

// replicates is replicate_agent, of which each agent has its own.
var replicates = tool.NewKind[replicateArgs](tool.Spec{Name: "replicate_agent", Description: replicateText})

// replicateTool lets a model spawn sub-agents through any Replicator.
func replicateTool(r community.Replicator) tool.Tool {
	return replicates.New(func(ctx context.Context, a replicateArgs) tool.Result {
		member, err := r.Replicate(ctx, community.Replica{Name: a.Name, Reason: a.Reason, Keep: a.Tools})
		if err != nil {
			return tool.Result{Text: "no sub-agent was spawned: " + err.Error(), IsError: true}
		}
		text, err := json.Marshal(struct {
			Success bool               `json:"success"`
			AgentID community.MemberID `json:"agent_id"`
			Name    string             `json:"name"`
			Accepts []string           `json:"accepts"`
		}{true, member.ID, member.Name, member.Accepts})
		if err != nil {
			return tool.Result{Text: err.Error(), IsError: true}
		}
		return tool.Result{Text: string(text)}
	})
}

// Replicate spawns a copy of the agent: the same definition and model, at most the same permissions,
// a share of the same budget (spec: Replicable; architecture: invariant 7). ErrBudget says which
// limit is reached. It is safe for concurrent use.
func (a *Agent) Replicate(ctx context.Context, r community.Replica) (community.Member, error) {
	parent := a.life
	if unknown := a.unknownTools(r.Keep); len(unknown) > 0 {
		return community.Member{}, fmt.Errorf("you do not have the tools %v; yours are %v", unknown, a.set.Names())
	}
	if err := parent.budget.reserve(parent.depth + 1); err != nil {
		return community.Member{}, err
	}
	name := r.Name
	if name == "" {
		name = parent.nextName()
	}
	child := &life{
		def: parent.def, model: parent.model, policy: parent.policy, memory: new(permission.Memory),
		keep: r.Keep, budget: parent.budget, place: true, depth: parent.depth + 1, parent: parent, ask: parent.ask, factory: parent.factory,
	}
	if r.Keep == nil {
		child.keep = parent.keep
	}
	member, err := parent.factory.begin(ctx, name, child)
	if err != nil {
		child.leave()
		return community.Member{}, err
	}
	if err := parent.adopt(member.ID); err != nil {
		return community.Member{}, errors.Join(err, parent.factory.cfg.Community.Terminate(ctx, member.ID))
	}
	a.report(Event{Type: EventSpawned, Member: member.ID, Text: r.Reason})
	return member, nil
}

// nextName is a name for a copy that was given none.
func (l *life) nextName() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.copies++
	return l.self.Name + "-" + strconv.Itoa(l.copies)
}

func (a *Agent) unknownTools(keep []string) (unknown []string) {
	have := a.set.Names()
	for _, name := range keep {
		if !slices.Contains(have, name) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// keepOnly allows the named tools and denies all others.
func keepOnly(names []string) permission.Policy {
	var p permission.Policy
	for _, name := range names {
		if rule, err := permission.ParseRule(name); err == nil { // names are of tools that exist
			p.Allow = append(p.Allow, rule)
		}
	}
	return p
}
