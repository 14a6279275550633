package team

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	_ "embed"

	"symbio/agent/budget"
	"symbio/agent/tool"
	"symbio/agent/tool/replicate"
)

//go:embed replicate_agent.md
var replicateText string

// maxCount is how many sub-agents one call can spawn: the default of budget.Limits.Agents. The
// budget may allow fewer.
const maxCount = 16

// replicateArgs are the arguments of replicate_agent. The
// descriptions in the tags are part of the schema that models read.
type replicateArgs struct {
	Reason string   `json:"reason" jsonschema:"why a sub-agent is needed, in a sentence"`
	Task   string   `json:"task,omitempty" jsonschema:"what it is to do: it begins at once, and you go on; wait_agents has its result"`
	Count  int      `json:"count,omitempty" jsonschema:"how many of them, each with this task; absent = 1"`
	Agent  string   `json:"agent,omitempty" jsonschema:"the name of an agent definition; absent = a copy of you"`
	Name   string   `json:"name,omitempty" jsonschema:"a short name for it: letters, digits, dots, hyphens"`
	Node   string   `json:"node,omitempty" jsonschema:"the node that it is to live on, by name or id; absent = one is chosen"`
	Where  []string `json:"where,omitempty" jsonschema:"labels that the chosen node must have, such as gpu, arch=arm64 or model=NAME; each = one on every node that has the others"`
	// Workspace is decided before the spawn, when the files are as the model knows them.
	Workspace bool       `json:"workspace,omitempty" jsonschema:"true = it gets a copy of your files to work in, on whichever node; collect_work brings its changes back. absent = it works in the directory of its node"`
	Tools     []string   `json:"tools,omitempty" jsonschema:"the tools it may use, a part of your own; absent = all of yours"`
	Budget    *shareArgs `json:"budget,omitempty" jsonschema:"what each may use of what is left to you, set aside for it; what it does not use comes back. Absent = it uses yours, as you do"`
}

// shareArgs is a share of the budget. Nothing is set aside for absent fields.
type shareArgs struct {
	ModelCalls  int     `json:"model_calls,omitempty" jsonschema:"how often models may be asked"`
	Tokens      int64   `json:"tokens,omitempty" jsonschema:"that models read and write"`
	Cost        float64 `json:"cost,omitempty"`
	Agents      int     `json:"agents,omitempty" jsonschema:"sub-agents of its own that live at once"`
	Depth       int     `json:"depth,omitempty" jsonschema:"generations below it"`
	WallSeconds float64 `json:"wall_seconds,omitempty" jsonschema:"how long a task may take it"`
}

// limits converts a share. Zero fields, and a nil share, set nothing aside.
func (a *shareArgs) limits() budget.Limits {
	if a == nil {
		return budget.Limits{}
	}
	return budget.Limits{
		ModelCalls: a.ModelCalls, Tokens: a.Tokens, Cost: a.Cost, Agents: a.Agents, Depth: a.Depth,
		Wall: budget.Seconds(a.WallSeconds),
	}
}

// replicateTool runs its calls one after the other, so that sub-agents are spawned, and numbered,
// in the order of the calls.
var replicateTool = tool.NewKind[replicateArgs](tool.Spec{Name: replicate.Name, Description: replicateText, Alone: true})

// replicate spawns the sub-agents that a model asked for, and starts their task. The task is
// reserved before the first spawn, so that two calls cannot start the same task. If a spawn fails,
// the sub-agents before it stay.
func (t *Team) replicate(ctx context.Context, args replicateArgs) tool.Result {
	count := cmp.Or(args.Count, 1)
	if count < 1 || count > maxCount {
		return errorResult(fmt.Errorf("no sub-agent was spawned: count is 1 to %d", maxCount))
	}
	if err := t.checkReplicate(args); err != nil {
		return errorResult(fmt.Errorf("no sub-agent was spawned: %w", err))
	}
	places, err := places(t.cfg(), args, count)
	if err != nil {
		return errorResult(fmt.Errorf("no sub-agent was spawned: %w", err))
	}
	key := taskKey(cmp.Or(args.Agent, t.cfg().Definition), args.Task, append([]string{args.Node}, args.Where...)...)
	if args.Task != "" {
		if err := t.reserve(key, len(places)); err != nil {
			return errorResult(fmt.Errorf("no sub-agent was spawned: %w", err))
		}
	}
	made := []replica{}
	var problems []error
	for n, at := range places {
		w := SpawnRequest{
			Reason: args.Reason, Definition: args.Agent, Name: at.name,
			Node: args.Node, Where: at.where, Keep: args.Tools, Share: args.Budget.limits(), Workspace: args.Workspace,
		}
		if w.Name == "" {
			w.Name = t.cfg().NextName()
		}
		c, err := t.launch(ctx, w, key, at.task)
		if err == nil {
			made = append(made, replicaOf(c))
			continue
		}
		problems = append(problems, err)
		without := len(places) - n // that no sub-agent has
		if at.onEach {
			without = 1
		}
		t.mu.Lock()
		t.release(key, without)
		t.mu.Unlock()
		if !at.onEach {
			break
		}
	}
	return replicateResult(made, len(places), args.Task != "" && len(made) > 0, errors.Join(problems...))
}

// each is the word in Where that asks for one sub-agent on every node.
const each = "each"

// replicaPlace is the place of one sub-agent, and its task there.
type replicaPlace struct {
	name, task string
	where      []string
	onEach     bool // another one is independent of it
}

// places returns where the sub-agents are to live: count of them, or with each one on every node that
// fits. Sub-agents that divide a task are told which of them they are.
func places(cfg Config, args replicateArgs, count int) (all []replicaPlace, err error) {
	if !slices.Contains(args.Where, each) {
		for i := range count {
			all = append(all, replicaPlace{name: numberName(args.Name, i, count), task: numberTask(args.Task, i, count), where: args.Where})
		}
		return all, nil
	}
	if count > 1 {
		return nil, errors.New("where each is one on every node: leave count out")
	}
	where := slices.DeleteFunc(slices.Clone(args.Where), func(label string) bool { return label == each })
	nodes, err := cfg.Nodes(cmp.Or(args.Agent, cfg.Definition), where)
	if err == nil && len(nodes) > maxCount {
		err = fmt.Errorf("%d nodes fit, and one call spawns at most %d: choose some with labels", len(nodes), maxCount)
	}
	for i, n := range nodes {
		all = append(all, replicaPlace{name: numberName(args.Name, i, len(nodes)), task: args.Task, where: append(slices.Clone(where), "node="+string(n)), onEach: true})
	}
	return all, err
}

// checkReplicate checks arguments of replicate_agent. The error is for the model.
func (t *Team) checkReplicate(args replicateArgs) error {
	if len(args.Task) > MaxText {
		return fmt.Errorf("the task is longer than %d KiB; put it into a file", MaxText>>10)
	}
	if args.Node != "" && len(args.Where) > 0 {
		return errors.New("name node or where, not both; node=NAME is a label, too")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	unread := 0
	for _, c := range t.children {
		if c.task != nil && c.task.done && !c.task.reported {
			unread++
		}
	}
	if unread >= maxUnread {
		return fmt.Errorf("you have not read %d results: read them with wait_agents first", unread)
	}
	return nil
}

// replica is a new sub-agent as the model reads of it.
type replica struct {
	replicate.Replica
	// Waiting says that all places are taken, so that it has no id yet.
	Waiting string `json:"waiting,omitempty"`
	// NotTaken says which files and skills did not go along with it.
	NotTaken string `json:"not_taken,omitempty"`
}

// replicaOf describes a new sub-agent to the model.
func replicaOf(c *Child) replica {
	one := replica{Replica: replicate.SpawnedAs(c.Member), NotTaken: c.omission()}
	if c.Account == nil {
		one.Waiting = c.Handle.Activity() + ". It begins by itself; wait_agents has its result, by its name."
	}
	return one
}

// replicateResult returns the tool's result. It is an error only if no sub-agent was spawned: the
// model must learn the ids of those that were.
func replicateResult(made []replica, count int, working bool, problem error) tool.Result {
	if len(made) == 0 {
		return errorResult(fmt.Errorf("no sub-agent was spawned: %w", problem))
	}
	reply := struct {
		Success bool `json:"success"`
		// Spawned is the one sub-agent, with its fields at the top; nil for several.
		*replica
		// Agents are the sub-agents if several were asked for.
		Agents []replica `json:"agents,omitempty"`
		// Working reports whether at least one of them has begun with the task.
		Working bool `json:"working,omitempty"`
		// Problem says how many were spawned, and why not all.
		Problem string `json:"problem,omitempty"`
	}{Success: true, Working: working}
	if reply.replica = &made[0]; count > 1 {
		reply.replica, reply.Agents = nil, made
	}
	if problem != nil {
		reply.Problem = fmt.Sprintf("%d of %d: %v", len(made), count, problem)
	}
	return tool.JSON(reply)
}

// numberName appends a number to the name of one of several sub-agents, so that the model can tell
// them apart.
func numberName(name string, i, of int) string {
	if name == "" || of == 1 {
		return name
	}
	return name + "-" + strconv.Itoa(i+1)
}

// numberTask appends to a task which of several sub-agents this one is, so that they can divide the
// work.
func numberTask(task string, i, of int) string {
	if of == 1 || task == "" {
		return task
	}
	return fmt.Sprintf("%s\n\n[You are number %d of %d agents that were given this task.]", task, i+1, of)
}
