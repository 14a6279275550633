package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	_ "embed"

	"symbio/agent/tool"
	"symbio/community"
)

//go:embed wait_agents.md
var waitText string

type waitArgs struct {
	Agents  []string `json:"agents,omitempty" jsonschema:"agent_ids or names of your sub-agents; absent = those that work, and those whose result you have not had"`
	Until   string   `json:"until,omitempty" jsonschema:"all = until all of them are done (the default), any = until one of them is, now = do not wait, only look"`
	Seconds float64  `json:"seconds,omitempty" jsonschema:"how long to wait at most; absent = until it is so"`
}

// waits is wait_agents, of which each agent has its own.
var waits = tool.NewKind[waitArgs](tool.Spec{Name: "wait_agents", Description: waitText, Enums: map[string][]string{"until": {"all", "any", "now"}}})

// looked is how a sub-agent stands, for its parent's model.
type looked struct {
	AgentID community.MemberID `json:"agent_id"`
	Name    string             `json:"name"`
	// Status is working, done, failed, idle (it was given no task yet) or gone.
	Status string `json:"status"`
	Doing  string `json:"doing,omitempty"`
	Result string `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
	Spent  Spent  `json:"spent"`
	// NotTold is what was said to it too late.
	NotTold []string `json:"not_told,omitempty"`
}

// lookAgain is how often waiting looks whether somebody has said something to the agent: it is to hear that soon.
const lookAgain = 500 * time.Millisecond

// wait waits for sub-agents, and answers with what became of them, in the order in which they were made or named.
func (a *Agent) wait(ctx context.Context, args waitArgs) tool.Result {
	l := a.life
	some, err := l.awaited(args.Agents)
	if err != nil {
		return failed(err)
	}
	if len(some) == 0 {
		return tool.Result{Text: "None of your sub-agents works, and you have had all results."}
	}
	note := l.await(ctx, some, args)
	reply := struct {
		Agents []looked `json:"agents"`
		Note   string   `json:"note,omitempty"`
	}{Note: note}
	for _, c := range some {
		reply.Agents = append(reply.Agents, l.look(c, mostResult/len(some)))
	}
	return answered(reply)
}

// awaited are the sub-agents that a call is about.
func (l *life) awaited(names []string) ([]*child, error) {
	some, err := l.offspring(names)
	if err != nil || len(names) > 0 {
		return some, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(some, func(c *child) bool { return c.work == nil || c.work.told && len(c.unsaid) == 0 }), nil
}

// await returns when it is as args says, or why it has not come to that.
func (l *life) await(ctx context.Context, some []*child, args waitArgs) (why string) {
	var late <-chan time.Time
	if args.Seconds > 0 {
		timer := time.NewTimer(time.Duration(min(args.Seconds, maxWall.Seconds()) * float64(time.Second)))
		defer timer.Stop()
		late = timer.C
	}
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		l.mu.Lock()
		stir, talk := l.brood.stir, l.talk
		working := 0
		for _, c := range some {
			if c.work != nil && !c.work.done {
				working++
			}
		}
		l.mu.Unlock()
		if working == 0 || args.Until == "now" || args.Until == "any" && working < len(some) {
			return ""
		}
		select {
		case <-stir:
		case <-again.C:
			if talk.PendingSteering() > 0 {
				return "Somebody has said something to you meanwhile, so the waiting ended; wait again after that."
			}
		case <-late:
			return fmt.Sprintf("%d of them still work.", working)
		case <-ctx.Done():
			return fmt.Sprintf("The waiting ended: %v. %d of them still work.", context.Cause(ctx), working)
		}
	}
}

// mostResult is how much of all results one answer has, in bytes; the tools' own limit is a little more.
const mostResult = 56 << 10

// look says how a sub-agent stands. Its result counts as told.
func (l *life) look(c *child, most int) looked {
	gone, doing := c.hand.gone(), c.hand.doing()
	s := looked{AgentID: c.member.ID, Name: c.member.Name, Status: "idle", Spent: c.account.total()}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.NotTold, c.unsaid = c.unsaid, nil
	switch w := c.work; {
	case w != nil && !w.done:
		s.Status, s.Doing = "working", doing
	case w != nil && w.err != nil:
		s.Status, s.Error = "failed", cut(w.err.Error(), most)
		w.told = true
	case w != nil:
		s.Status, s.Result = "done", cut(w.text, most)
		w.told = true
	case gone != nil:
		s.Status, s.Error = "gone", gone.Error()
	}
	return s
}

// cut shortens a text, and says how to get the rest.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%s\n[%d more bytes: wait for this agent alone, or ask it for a shorter result.]", strings.ToValidUTF8(text[:most], ""), len(text)-most)
}
