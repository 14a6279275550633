package team

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	_ "embed"

	"symbio/agent/budget"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/security/visible"
)

//go:embed wait_agents.md
var waitText string

// waitArgs are the arguments of wait_agents. Models read the descriptions in the tags.
type waitArgs struct {
	Agents  []string `json:"agents,omitempty" jsonschema:"agent_ids or names of your sub-agents; absent = those that work, and those whose result you have not had"`
	Until   string   `json:"until,omitempty" jsonschema:"all = until all of them are done (the default), any = until one of them is, now = do not wait, only look"`
	Seconds float64  `json:"seconds,omitempty" jsonschema:"how long to wait at most; absent = until it is so"`
}

var waitTool = tool.NewKind[waitArgs](tool.Spec{Name: "wait_agents", Description: waitText, ReadOnly: true, Enums: map[string][]string{"until": {"all", "any", "now"}}})

// status is the state of a sub-agent in the results of wait_agents and stop_agents. Models read it.
type status struct {
	AgentID community.MemberID `json:"agent_id,omitempty"`
	Name    string             `json:"name"`
	// Status is waiting (for a place), working, done, failed, idle (it was given no task yet) or gone.
	Status string       `json:"status"`
	Doing  string       `json:"doing,omitempty"`
	Result string       `json:"result,omitempty"`
	Error  string       `json:"error,omitempty"`
	Spent  budget.Spent `json:"spent"`
	// Undelivered are the steering texts that came too late.
	Undelivered []string `json:"not_told,omitempty"`
}

// steeringInterval is how often wait_agents checks for steering texts to the parent. A person that
// steers should not have to wait for the sub-agents; half a second is not noticed.
const steeringInterval = 500 * time.Millisecond

// wait waits for sub-agents and answers with their states, in the order in which they were named or
// spawned.
func (t *Team) wait(ctx context.Context, args waitArgs) tool.Result {
	some, err := t.awaited(args.Agents)
	if err != nil {
		return errorResult(err)
	}
	if len(some) == 0 {
		return tool.Result{Text: "None of your sub-agents works, and there is no result that you have not had."}
	}
	note := t.await(ctx, some, args)
	reply := struct {
		Agents []status `json:"agents"`
		Note   string   `json:"note,omitempty"`
	}{Note: note}
	for _, c := range some {
		reply.Agents = append(reply.Agents, t.inspect(c, maxResult/len(some)))
	}
	return tool.JSON(reply)
}

// awaited returns the sub-agents that a call waits for: the named ones, else all whose results the
// model has not read.
func (t *Team) awaited(names []string) ([]*Child, error) {
	some, err := t.find(names)
	if err != nil || len(names) > 0 {
		return some, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.DeleteFunc(some, func(c *Child) bool { return c.task == nil || c.task.reported && len(c.undelivered) == 0 }), nil
}

// await blocks until the sub-agents are in the state that args names. If it returns before that,
// why is the reason.
func (t *Team) await(ctx context.Context, some []*Child, args waitArgs) (why string) {
	var late <-chan time.Time
	if args.Seconds > 0 {
		timer := time.NewTimer(budget.Seconds(args.Seconds))
		defer timer.Stop()
		late = timer.C
	}
	again := time.NewTicker(steeringInterval)
	defer again.Stop()
	for {
		t.mu.Lock()
		// The channel is read together with the states, so that a change right after the unlock is
		// not missed.
		changed := t.changed
		working := 0
		for _, c := range some {
			if c.task != nil && !c.task.done {
				working++
			}
		}
		stuck := isStuck(t.children)
		t.mu.Unlock()
		if stuck && working > 0 {
			return fmt.Sprintf("%d tasks wait for a place. Collect the work of those that are done (collect_work), or stop them, so that these can begin.", working)
		}
		if working == 0 || args.Until == "now" || args.Until == "any" && working < len(some) {
			return ""
		}
		select {
		case <-changed:
		case <-again.C:
			if t.cfg().PendingSteering() > 0 {
				return "A message for you came meanwhile, so the waiting ended; wait again after you have read it."
			}
		case <-late:
			return fmt.Sprintf("%d of them still work.", working)
		case <-ctx.Done():
			return fmt.Sprintf("The waiting ended: %v. %d of them still work.", context.Cause(ctx), working)
		}
	}
}

// maxResult bounds the results in one answer, in bytes. It is a little below the limit of tool
// results, which would cut the JSON.
const maxResult = 56 << 10

// inspect returns the state of a sub-agent with at most limit bytes of its result. The result
// counts as reported, and its undelivered texts are returned once.
func (t *Team) inspect(c *Child, limit int) status {
	c = t.latest(c)
	gone, doing := c.Handle.Gone(), c.Handle.Activity()
	s := status{AgentID: c.Member.ID, Name: c.Member.Name, Status: "idle", Spent: c.total()}
	t.mu.Lock()
	defer t.mu.Unlock()
	s.Undelivered, c.undelivered = c.undelivered, nil
	switch w := c.task; {
	case w != nil && !w.done:
		s.Status, s.Doing = "working", doing
		if c.Account == nil {
			s.Status = "waiting"
		}
	case w != nil && w.err != nil:
		err := w.err
		if gone != nil && errors.Is(err, community.ErrUnavailable) {
			err = gone // it says what became of the sub-agent
		}
		s.Status, s.Error = "failed", shorten(err.Error(), limit)
		w.reported = true
	case w != nil:
		s.Status, s.Result = "done", shorten(w.text, limit)
		w.reported = true
	case gone != nil:
		s.Status, s.Error = "gone", gone.Error()
	}
	return s
}

// shorten cuts text to limit bytes and appends how to get the rest.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return fmt.Sprintf("%s\n[%d more bytes: wait for this agent alone, or ask it for a shorter result.]", visible.Prefix(text, limit), len(text)-limit)
}
