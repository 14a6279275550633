package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	_ "embed"

	"symbio/agent/tool"
	"symbio/community"
	"symbio/security/permission"
)

//go:embed replicate_agent.md
var replicateText string

// maxCount is how many sub-agents one call makes at most; the budget may allow fewer.
const maxCount = 16

// replicateArgs are what a model says of sub-agents that it wants (spec: swiftagent.md, ReplicateTool).
type replicateArgs struct {
	Reason string     `json:"reason" jsonschema:"why a sub-agent is needed, in a sentence"`
	Task   string     `json:"task,omitempty" jsonschema:"what it is to do: it begins at once, and you go on; wait_agents has its result"`
	Count  int        `json:"count,omitempty" jsonschema:"how many of them, each with this task; absent = 1"`
	Agent  string     `json:"agent,omitempty" jsonschema:"the name of an agent definition; absent = a copy of you"`
	Name   string     `json:"name,omitempty" jsonschema:"a short name for it: letters, digits, dots, hyphens"`
	Node   string     `json:"node,omitempty" jsonschema:"the node that it is to live on, by name or id; absent = yours"`
	Tools  []string   `json:"tools,omitempty" jsonschema:"the tools it may use, a part of your own; absent = all of yours"`
	Budget *shareArgs `json:"budget,omitempty" jsonschema:"what each may use of what is left to you, set aside for it; what it does not use comes back. Absent = it uses yours, as you do"`
}

// shareArgs is a share of the budget. What is absent is not shared out.
type shareArgs struct {
	ModelCalls  int     `json:"model_calls,omitempty" jsonschema:"how often models may be asked"`
	Tokens      int64   `json:"tokens,omitempty" jsonschema:"that models read and write"`
	Cost        float64 `json:"cost,omitempty"`
	Agents      int     `json:"agents,omitempty" jsonschema:"sub-agents of its own that live at once"`
	Depth       int     `json:"depth,omitempty" jsonschema:"generations below it"`
	WallSeconds float64 `json:"wall_seconds,omitempty" jsonschema:"how long a task may take it"`
}

func (a *shareArgs) limits() Limits {
	if a == nil {
		return Limits{}
	}
	return Limits{
		ModelCalls: a.ModelCalls, Tokens: a.Tokens, Cost: a.Cost, Agents: a.Agents, Depth: a.Depth,
		Wall: time.Duration(min(a.WallSeconds, maxWall.Seconds()) * float64(time.Second)),
	}
}

// spawned is a sub-agent as the model reads of it.
type spawned struct {
	AgentID community.MemberID `json:"agent_id"`
	Name    string             `json:"name"`
	Accepts []string           `json:"accepts"`
}

// replicates is replicate_agent, of which each agent has its own. Calls run one after the other, so that sub-agents are
// made in the order in which the model wanted them.
var replicates = tool.NewKind[replicateArgs](tool.Spec{Name: "replicate_agent", Description: replicateText, Alone: true})

// replicate makes the sub-agents that a model wants, and has them begin their task.
func (a *Agent) replicate(ctx context.Context, args replicateArgs) tool.Result {
	count := cmp.Or(args.Count, 1)
	if count < 1 || count > maxCount {
		return failed(fmt.Errorf("no sub-agent was spawned: count is 1 to %d", maxCount))
	}
	if len(args.Task) > maxTask {
		return failed(fmt.Errorf("no sub-agent was spawned: the task is longer than %d KiB; put it into a file", maxTask>>10))
	}
	key := dutyOf(cmp.Or(args.Agent, a.life.def.Name), args.Task)
	if args.Task != "" {
		if err := a.life.claim(key, count); err != nil {
			return failed(fmt.Errorf("no sub-agent was spawned: %w", err))
		}
	}
	made := []spawned{}
	var problem error
	for i := range count {
		c, err := a.spawn(ctx, wanted{
			reason: args.Reason, definition: args.Agent, name: numbered(args.Name, i, count), node: args.Node, keep: args.Tools, share: args.Budget.limits(),
		})
		if err == nil && args.Task != "" {
			err = a.life.give(ctx, c, key, ofSeveral(args.Task, i, count))
		} else if err != nil && args.Task != "" {
			a.life.mu.Lock()
			a.life.forgo(key, count-i)
			a.life.mu.Unlock()
		}
		if c != nil {
			made = append(made, spawned{c.member.ID, c.member.Name, c.member.Accepts})
		}
		if err != nil {
			problem = err
			break
		}
	}
	return replicated(made, count, args.Task != "", problem)
}

// replicated is what the model reads of the sub-agents that were made.
func replicated(made []spawned, count int, working bool, problem error) tool.Result {
	if len(made) == 0 {
		return failed(fmt.Errorf("no sub-agent was spawned: %w", problem))
	}
	reply := struct {
		Success  bool      `json:"success"`
		*spawned           // of one
		Agents   []spawned `json:"agents,omitempty"` // of several
		Working  bool      `json:"working,omitempty"`
		Problem  string    `json:"problem,omitempty"`
	}{Success: true, Working: working}
	if reply.spawned = &made[0]; count > 1 {
		reply.spawned, reply.Agents = nil, made
	}
	if problem != nil {
		reply.Problem = fmt.Sprintf("%d of %d: %v", len(made), count, problem)
	}
	text, err := json.Marshal(reply)
	if err != nil {
		return failed(err)
	}
	return tool.Result{Text: string(text)}
}

func numbered(name string, i, of int) string {
	if name == "" || of == 1 {
		return name
	}
	return name + "-" + strconv.Itoa(i+1)
}

// ofSeveral tells each of several which it is, so that they can part the work, or do it each in its own way.
func ofSeveral(task string, i, of int) string {
	if of == 1 {
		return task
	}
	return fmt.Sprintf("%s\n\n[You are number %d of %d agents that were given this task.]", task, i+1, of)
}

// Replicate spawns a copy of the agent: the same definition and model, at most the same permissions, out of the same
// budget (spec: Replicable; architecture: invariant 7). ErrBudget says which limit is reached. It is safe for concurrent
// use.
func (a *Agent) Replicate(ctx context.Context, r community.Replica) (community.Member, error) {
	c, err := a.spawn(ctx, wanted{reason: r.Reason, name: r.Name, node: r.Node, keep: r.Keep})
	if err != nil {
		return community.Member{}, err
	}
	return c.member, nil
}

// wanted is what a new sub-agent is to be.
type wanted struct {
	reason     string
	definition string // "" = the parent's
	name       string
	node       string   // "" = this one
	keep       []string // tools; nil = all of the parent's
	share      Limits
}

func (a *Agent) spawn(ctx context.Context, w wanted) (*child, error) {
	if unknown := a.unknownTools(w.keep); len(unknown) > 0 {
		return nil, fmt.Errorf("you do not have the tools %v; yours are %v", unknown, a.set.Names())
	}
	if w.keep == nil {
		w.keep = a.keepFor(w.definition)
	}
	if w.node != "" {
		return a.spawnOn(ctx, w)
	}
	parent := a.life
	l, err := parent.descend(ctx, w)
	if err != nil {
		return nil, err
	}
	member, err := parent.factory.begin(ctx, cmp.Or(w.name, parent.nextName()), l)
	if err != nil {
		l.leave()
		return nil, err
	}
	c := &child{member: member, hand: local{l}, account: l.account}
	if err := parent.adopt(member.ID, c); err != nil {
		return nil, errors.Join(err, parent.factory.cfg.Community.Terminate(ctx, member.ID))
	}
	a.report(Event{Type: EventSpawned, Member: member.ID, Text: w.reason})
	return c, nil
}

// descend is the life of a new sub-agent of this node, with a place in the budget.
func (l *life) descend(ctx context.Context, w wanted) (*life, error) {
	def, model := l.def, l.raw
	var most Limits
	if w.definition != "" && w.definition != l.def.Name {
		var err error
		if def, model, err = l.factory.defined(ctx, w.definition, l.raw); err != nil {
			return nil, err
		}
		most = def.Budget // that of the agent's own definition holds already
	}
	account, err := l.account.openWithin(most, w.share, false)
	if err != nil {
		return nil, err
	}
	return (&life{
		def: def, policy: l.policy, memory: new(permission.Memory),
		keep: w.keep, account: account, parent: l, ask: l.ask, factory: l.factory,
	}).using(model), nil
}

// keepFor are the tools that a sub-agent is left whose parent says nothing of them; nil = all there are. An agent whose
// own definition leaves some out does not get them by way of another.
func (a *Agent) keepFor(definition string) []string {
	l := a.life
	if l.def.Tools == nil || definition == "" || definition == l.def.Name {
		return l.keep
	}
	return slices.DeleteFunc(a.set.Names(), func(name string) bool { return !l.left(name) })
}

// left reports whether the agent's parent let it have a tool. Those for its own sub-agents come with that which makes
// them.
func (l *life) left(name string) bool {
	return l.keep == nil || slices.Contains(l.keep, name) || forChildren(name) && slices.Contains(l.keep, "replicate_agent")
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

func failed(err error) tool.Result { return tool.Result{Text: err.Error(), IsError: true} }
