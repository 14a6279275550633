package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	_ "embed"

	"symbio/agent/conversation"
	"symbio/agent/tool"
)

//go:embed message_agent.md
var messageText string

type messageArgs struct {
	Agent   string `json:"agent" jsonschema:"the agent_id or name of one of your sub-agents"`
	Message string `json:"message" jsonschema:"what to say; to one that does nothing, its next task"`
}

// messages is message_agent, of which each agent has its own.
var messages = tool.NewKind[messageArgs](tool.Spec{Name: "message_agent", Description: messageText})

// message gives a sub-agent that does nothing its next task, and tells one that works something more.
func (a *Agent) message(ctx context.Context, args messageArgs) tool.Result {
	if err := checkSteering(args.Message); err != nil {
		return failed(err)
	}
	some, err := a.life.offspring([]string{args.Agent})
	if err != nil {
		return failed(err)
	}
	c := some[0]
	if why := c.hand.gone(); why != nil {
		return failed(fmt.Errorf("%s is gone: %w", c.member.Name, why))
	}
	l := a.life
	l.mu.Lock()
	working := c.work != nil && !c.work.done
	l.mu.Unlock()
	if working {
		return l.tell(ctx, c, args.Message)
	}
	key := dutyOf(c.member.Metadata["definition"], args.Message)
	if err := l.claim(key, 1); err != nil {
		return failed(fmt.Errorf("%s was not given the task: %w", c.member.Name, err))
	}
	if err := l.give(ctx, c, key, args.Message); err != nil {
		return failed(fmt.Errorf("%s was not given the task: %w", c.member.Name, err))
	}
	return answered(map[string]any{"agent_id": c.member.ID, "name": c.member.Name, "outcome": "started", "note": c.member.Name + " works on it as a new task; wait_agents has its result."})
}

// soon is how long a call waits to see that something said was heard: a model that is being asked answers in seconds, a
// tool may take minutes.
const soon = 2 * time.Second

// tell says something to a sub-agent that works. What comes of it later wait_agents tells.
func (l *life) tell(ctx context.Context, c *child, text string) tool.Result {
	under, cancel := l.beside(ctx)
	heard := make(chan conversation.Receipt, 1)
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		cancel()
		return failed(fmt.Errorf("%s was not told", c.member.Name))
	}
	l.brood.works.Go(func() {
		defer cancel()
		r, err := c.hand.steer(under, text)
		if err != nil {
			r.Outcome, r.Why = conversation.Returned, err.Error()
		}
		l.said(c, text, r.Outcome != conversation.Returned)
		heard <- r
	})
	l.mu.Unlock()
	wait := time.NewTimer(soon)
	defer wait.Stop()
	reply := map[string]any{"agent_id": c.member.ID, "name": c.member.Name, "outcome": "on its way", "note": c.member.Name + " is told before its model is asked the next time. If it is done before that, wait_agents says that it was not told."}
	select {
	case r := <-heard:
		switch reply["outcome"] = r.Outcome; r.Outcome {
		case conversation.Returned:
			return failed(fmt.Errorf("%s was not told: %s", c.member.Name, r.Why))
		case conversation.Kept:
			reply["note"] = c.member.Name + " is told with the task that it begins next."
		default:
			reply["note"] = c.member.Name + " has been told."
		}
	case <-wait.C:
	case <-ctx.Done():
	}
	return answered(reply)
}

// answered is what a model reads, as JSON.
func answered(v any) tool.Result {
	text, err := json.Marshal(v)
	if err != nil {
		return failed(err)
	}
	return tool.Result{Text: string(text)}
}
