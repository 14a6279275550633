package agent

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"symbio/agent/budget"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/community"
	"symbio/internal/security/visible"
)

// maxTaskShown and maxArgsShown bound the texts of an Activity in bytes: what people recognise a
// task or a call by.
const (
	maxTaskShown = 200
	maxArgsShown = 200
)

// Activity is what an agent of this node does at a moment.
type Activity struct {
	Member community.Member
	// Definition is the name of the agent's definition.
	Definition string
	// Parent is the agent that spawned it, also on another node; "" = it has none.
	Parent community.MemberID
	// Model is the name of the model, Session the id of the session; "" = it is not kept.
	Model, Session string
	// Working reports whether it has a task, Asking whether a person is asked for it. Since is when
	// the state began that the two make.
	Working, Asking bool
	Since           time.Time
	// Task is the beginning of the task, of the last one if it has none now.
	Task string
	// Turn is the number of the last answer of the model within the task.
	Turn int
	// Context is how many tokens the last request and its answer had, Window how many fit; 0 = not
	// known.
	Context, Window int
	// Calls are the calls of tools that have not returned, in their order.
	Calls []RunningCall
	// PlanDone of PlanSteps steps of its plan are done.
	PlanDone, PlanSteps int
	// Spent is the use by it and its sub-agents on this node since the spawn.
	Spent ModelUsage
	// Limits are the limits of its own budget; a zero field draws on its parent's.
	Limits budget.Limits
}

// SoFar says in a sentence what the agent has done for its task; "" if it has none.
func (a Activity) SoFar() string {
	if a.Task == "" {
		return ""
	}
	text := fmt.Sprintf("It works on %q, and has had %s of the model", a.Task, visible.Plural(a.Turn, "answer"))
	if a.PlanSteps > 0 {
		text += fmt.Sprintf(" and done %d of the %d steps of its plan", a.PlanDone, a.PlanSteps)
	}
	return text + "."
}

// RunningCall is a call of a tool that has not returned.
type RunningCall struct {
	ID, Tool string
	// Args is the beginning of the arguments.
	Args  string
	Since time.Time
	// Asking reports whether it waits for a person.
	Asking bool
}

// ModelUsage is how often models were asked, and how much they read and wrote. Cost counts answers
// with a known price.
type ModelUsage struct {
	Calls                 int
	Input, Output, Cached int
	Cost                  float64
}

// add counts an answer.
func (u *ModelUsage) add(o llm.Usage) {
	u.Calls, u.Input, u.Output, u.Cached = u.Calls+1, u.Input+o.Input, u.Output+o.Output, u.Cached+o.CacheRead
	if o.Cost != nil {
		u.Cost += *o.Cost
	}
}

// activity keeps the fields of an Activity that change, from the agent's own events. It is safe for
// concurrent use.
type activity struct {
	mu     sync.Mutex
	now    Activity // Member to Session and Limits are not set; guarded by mu
	asking int      // how many times a person is asked now; guarded by mu
}

// record takes up an event of the agent.
func (a *activity) record(e event.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := &a.now
	switch e.Type {
	case event.TypeTask:
		n.Working, n.Task, n.Since = true, visible.Line(e.Text, maxTaskShown), time.Now()
		n.Turn, n.Calls, n.PlanDone, n.PlanSteps = 0, nil, 0, 0
	case event.TypeTurn:
		t := event.PartOf[event.Turn](e)
		n.Turn, n.Context, n.Window = t.Turn, t.Context, t.Window
	case event.TypeToolCall:
		t := event.PartOf[event.Tool](e)
		n.Calls = append(n.Calls, RunningCall{ID: t.Call, Tool: t.Tool, Args: visible.Line(string(t.Args), maxArgsShown), Since: time.Now()})
	case event.TypeToolResult:
		t := event.PartOf[event.Tool](e)
		if i := n.call(t.Call, t.Tool); i >= 0 {
			n.Calls = slices.Delete(n.Calls, i, i+1)
		}
	case event.TypePlan:
		steps := event.PartOf[event.Plan](e).Steps
		n.PlanSteps, n.PlanDone = len(steps), 0
		for _, s := range steps {
			if s.State == "done" {
				n.PlanDone++
			}
		}
	case event.TypeDone, event.TypeFailed:
		n.Working, n.Calls, n.Since = false, nil, time.Now()
	}
}

// call returns the index of a running call; -1 if there is none. Servers that give calls no id are
// told apart by the tool.
func (a *Activity) call(id, tool string) int {
	return slices.IndexFunc(a.Calls, func(c RunningCall) bool { return c.ID == id && c.Tool == tool })
}

// isRunning reports whether a call is known that has not returned.
func (a *activity) isRunning(id, tool string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now.call(id, tool) >= 0
}

// ask records that a person is asked about a call, or no longer asked.
func (a *activity) ask(id, tool string, asking bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.now.Asking
	if asking {
		a.asking++
	} else {
		a.asking--
	}
	if a.now.Asking = a.asking > 0; a.now.Asking != was {
		a.now.Since = time.Now()
	}
	if i := a.now.call(id, tool); i >= 0 {
		a.now.Calls[i].Asking = asking
	}
}

// spend counts an answer of the agent's model, or of a sub-agent's.
func (a *activity) spend(u llm.Usage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now.Spent.add(u)
}

// snapshot returns a copy of the known state.
func (a *activity) snapshot() Activity {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.now
	out.Calls = slices.Clone(out.Calls)
	return out
}

// events reports the work of an agent: to its Activity and its parents' activities, to the node that borrows it, and to people.
type events struct {
	activity
	permissions *permissions // say who the agent is, whose events these are, and which node borrows it
	parent      *events      // the events of the agent's parent; nil = it has none on this node
}

// report adds the agent's identity to an event and tells it.
func (e *events) report(v event.Event) {
	v.Agent, v.Name = string(e.permissions.self.ID), e.permissions.self.Name
	if e.parent != nil {
		v.Parent = string(e.parent.permissions.self.ID)
	}
	if !v.IsFrequent() {
		e.record(v)
	}
	if usage := cmp.Or(event.PartOf[event.Turn](v).Usage, event.PartOf[event.Compaction](v).Usage); usage != nil && !v.IsFrequent() {
		e.permissions.factory.used.spend(*usage)
		for up := e; up != nil; up = up.parent {
			up.spend(*usage)
		}
	}
	switch lease := e.permissions.borrower(); v.Type {
	case event.TypeToolCall:
		lease.Progress(v.Name + " asks for " + event.PartOf[event.Tool](v).Tool)
	case event.TypeTurn, event.TypeSpawned, event.TypeDone, event.TypeFailed:
		lease.SpentChanged()
	}
	e.permissions.factory.cfg.Report(v)
}

// calls tells of a call of a tool, once.
func (e *events) calls(c llm.ToolCall) {
	if c.ID != "" && e.isRunning(c.ID, c.Name) {
		return // a program has told that it began
	}
	e.report(event.Event{Type: event.TypeToolCall, Part: event.Tool{Tool: c.Name, Call: c.ID, Args: asJSON(c.Args)}})
}

// notice reports a message for people.
func (e *events) notice(text string) { e.report(event.Event{Type: event.TypeNotice, Text: text}) }

// Activities returns what the agents of this node do, in no order.
func (f *Factory) Activities() []Activity {
	var all []Activity
	for _, i := range f.instances.all() {
		all = append(all, activityOf(i))
	}
	return all
}

// Activity returns what an agent of this node does; false if no agent of this node has that id.
func (f *Factory) Activity(id community.MemberID) (Activity, bool) {
	i := f.instances.byID(id)
	if i == nil {
		return Activity{}, false
	}
	return activityOf(i), true
}

// Used returns what the models of all agents of this node were asked for, also of those that have
// ended.
func (f *Factory) Used() ModelUsage { return f.used.snapshot().Spent }

// activityOf returns what an agent does now.
func activityOf(i *instance) Activity {
	out := i.events.snapshot()
	out.Member, out.Definition, out.Parent = i.self, i.order.Definition.Name, i.parentID()
	out.Model, out.Session, out.Limits = i.settings.modelName(), i.record.info().ID, i.task.account.Limits()
	if out.Window == 0 {
		out.Window = i.agent.Load().conversation.Limit()
	}
	return out
}

// summary returns what the agent does now in a few words, for wait_agents of its parent; "" = it has
// no task.
func (a *activity) summary() string {
	now := a.snapshot()
	switch {
	case !now.Working || now.Turn == 0:
		return ""
	case len(now.Calls) > 0:
		return "uses " + now.Calls[len(now.Calls)-1].Tool
	}
	return fmt.Sprintf("turn %d", now.Turn)
}
