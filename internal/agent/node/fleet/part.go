package fleet

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"symbio/agent"
	"symbio/agent/budget"
	"symbio/agent/event"
	"symbio/community"
	symbiov1 "symbio/proto/symbio/v1"
)

const (
	// partLinger is how long this node's part is kept up to date after the last request: longer than
	// a watcher takes between two of them, whatever happens to one.
	partLinger = 30 * time.Second
	// collectTime is how long changes are collected after the first one.
	collectTime = 100 * time.Millisecond
	// healthInterval is how often the node's own figures are taken.
	healthInterval = 5 * time.Second
	// pastEvents is how many events of the past a new watcher gets, and pastSearched among how many
	// they are searched.
	pastEvents   = 32
	pastSearched = 256
)

// part is this node with its agents. Run keeps it up to date while it is asked for; without
// requests it costs nothing.
type part struct {
	cfg    Config
	table  *table
	demand *demand

	// process and problems are what Config.Health said last; used by follow only.
	process  *symbiov1.Process
	problems []string
}

func newPart(cfg Config) *part {
	return &part{cfg: cfg, table: newTable(), demand: newDemand(partLinger)}
}

// read returns what changed after the cursor, about limit bytes of it. If nothing did, it waits, at
// most for the given time; then the change is empty. The error is the cause of ctx.
func (p *part) read(ctx context.Context, c cursor, wait time.Duration, limit int) (*symbiov1.FleetPart, error) {
	defer p.demand.acquire()()
	patient, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if err := p.table.wait(patient, c); err != nil && ctx.Err() != nil {
		return nil, err
	}
	out, _ := p.table.since(c, limit)
	return out, nil
}

// follow keeps the part up to date until ctx ends.
func (p *part) follow(ctx context.Context) {
	events := p.cfg.Events.SubscribeLast(pastSearched)
	defer events.Close()
	past := take(events, changes{})
	p.process, p.problems = p.cfg.Health()
	p.table.open(func(t *table) {
		p.putAll(t)
		for _, e := range past.events[max(0, len(past.events)-pastEvents):] {
			t.addEvent(e)
		}
	})
	defer p.table.close()
	health := time.NewTicker(healthInterval)
	defer health.Stop()
	for {
		select {
		case <-events.Ready():
		case <-health.C:
			p.process, p.problems = p.cfg.Health()
			p.table.update(func(t *table) { t.putNode(p.node(t)) })
			continue
		case <-ctx.Done():
			return
		}
		got := take(events, changes{})
		if !sleep(ctx, collectTime) {
			return
		}
		p.apply(take(events, got))
	}
}

// changes are what several events changed.
type changes struct {
	events []*symbiov1.Event
	agents map[community.MemberID]bool
	missed bool // events are missing, so that any agent may have changed
}

// take adds the events that wait to c.
func take(events *event.Subscription, c changes) changes {
	if c.agents == nil {
		c.agents = map[community.MemberID]bool{}
	}
	for {
		e, ok := events.Take()
		switch {
		case !ok:
			return c
		case e.Type == event.TypeGap:
			c.missed = true
		case e.IsFrequent():
			continue // it changes nothing that is shown here
		}
		if e.Agent != "" {
			c.agents[community.MemberID(e.Agent)] = true
		}
		if short := shorten(e); short != nil {
			c.events = append(c.events, short)
		}
	}
}

// apply takes up changes.
func (p *part) apply(c changes) {
	p.table.update(func(t *table) {
		if c.missed {
			p.putAll(t)
		}
		for id := range c.agents {
			if a, ok := p.cfg.Agents.Activity(id); ok {
				t.putAgent(p.agent(a))
			} else {
				t.removeAgent(string(id))
			}
		}
		for _, e := range c.events {
			t.addEvent(e)
		}
		if len(c.agents) > 0 {
			t.putNode(p.node(t))
		}
	})
}

// putAll sets all agents and removes those that have ended.
func (p *part) putAll(t *table) {
	lives := map[string]bool{}
	for _, a := range p.cfg.Agents.Activities() {
		lives[string(a.Member.ID)] = true
		t.putAgent(p.agent(a))
	}
	t.removeAgents(string(p.cfg.Node), lives)
	t.putNode(p.node(t))
}

// agent returns the message of an agent of this node.
func (p *part) agent(a agent.Activity) *symbiov1.FleetAgent {
	out := &symbiov1.FleetAgent{
		Id: string(a.Member.ID), Name: a.Member.Name, Definition: a.Definition, Parent: string(a.Parent), State: stateIdle, Task: a.Task,
		Since: timestamppb.New(a.Since),
		Model: a.Model, Session: a.Session, Turn: uint32(a.Turn), Context: uint64(a.Context), Window: uint64(a.Window),
		Spent: spending(a.Spent), Limits: limits(a.Limits), PlanDone: uint32(a.PlanDone), PlanSteps: uint32(a.PlanSteps),
	}
	switch {
	case a.Asking:
		out.State = stateWaiting
	case a.Working:
		out.State = stateWorking
	}
	for _, c := range a.Calls {
		out.Calls = append(out.Calls, &symbiov1.FleetCall{Call: c.ID, Tool: c.Tool, Args: c.Args, Since: timestamppb.New(c.Since), Waiting: c.Asking})
	}
	cleanAgent(out, p.cfg.Node, p.cfg.Name)
	return out
}

// node returns the message of this node, with the counts of the agents in the table. The caller must
// hold the table's mu.
func (p *part) node(t *table) *symbiov1.FleetNode {
	out := &symbiov1.FleetNode{
		Id: string(p.cfg.Node), Name: p.cfg.Name, Version: p.cfg.Version, Started: timestamppb.New(p.cfg.Started),
		Spent: spending(p.cfg.Agents.Used()), Process: p.process, Problems: p.problems,
	}
	for _, e := range t.entries {
		if e.agent == nil {
			continue
		}
		out.Agents++
		switch e.agent.GetState() {
		case stateWorking:
			out.Working++
		case stateWaiting:
			out.Waiting++
		}
	}
	return out
}

func spending(u agent.ModelUsage) *symbiov1.Spending {
	return &symbiov1.Spending{ModelCalls: uint32(u.Calls), Input: uint64(u.Input), Output: uint64(u.Output), Cached: uint64(u.Cached), Cost: u.Cost}
}

// limits returns the limits that an agent has of its own.
func limits(l budget.Limits) *symbiov1.Budget {
	n := func(v int) uint32 { return uint32(max(v, 0)) }
	return &symbiov1.Budget{Depth: n(l.Depth), Agents: n(l.Agents), SpawnsPerMinute: n(l.SpawnsPerMinute), Wall: durationpb.New(l.Wall),
		ModelCalls: n(l.ModelCalls), Tokens: uint64(max(l.Tokens, 0)), Cost: l.Cost}
}

// sleep waits for d; false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
