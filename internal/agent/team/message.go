package team

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	_ "embed"

	"symbio/agent/conversation"
	"symbio/agent/tool"
	"symbio/community"
)

//go:embed message_agent.md
var messageText string

// messageArgs are the arguments of message_agent. Models read the descriptions in the tags.
type messageArgs struct {
	Agent   string `json:"agent" jsonschema:"the agent_id or name of one of your sub-agents"`
	Message string `json:"message" jsonschema:"what to say; to one that does nothing, its next task"`
}

var messageTool = tool.NewKind[messageArgs](tool.Spec{Name: "message_agent", Description: messageText})

// message gives an idle sub-agent its next task, and steers one that works. The result is an error
// if there is no such sub-agent, it has ended, or the same task is being done already.
func (t *Team) message(ctx context.Context, args messageArgs) tool.Result {
	if err := CheckText(args.Message); err != nil {
		return errorResult(err)
	}
	some, err := t.find([]string{args.Agent})
	if err != nil {
		return errorResult(err)
	}
	c := some[0]
	if why := c.Handle.Gone(); why != nil {
		return errorResult(fmt.Errorf("%s is gone: %w", c.Member.Name, why))
	}
	t.mu.Lock()
	// The task may end right after this; Steer then reports that the text came too late.
	working := c.task != nil && !c.task.done
	t.mu.Unlock()
	switch {
	case working:
		return t.steer(ctx, c, args.Message)
	case c.Account == nil: // it never had a place
		return errorResult(fmt.Errorf("%s was not started: spawn another one with replicate_agent", c.Member.Name))
	}
	key := taskKey(c.Member.Metadata[community.DefinitionKey], args.Message)
	if err = t.reserve(key, 1); err == nil {
		err = t.assign(ctx, c, key, args.Message)
	}
	if err != nil {
		return errorResult(fmt.Errorf("%s was not given the task: %w", c.Member.Name, err))
	}
	return tool.JSON(map[string]any{"agent_id": c.Member.ID, "name": c.Member.Name, "outcome": "started", "note": c.Member.Name + " works on it as a new task; wait_agents has its result."})
}

// MaxText bounds a task and a steering text, in bytes. A longer text belongs in a file.
const MaxText = 256 << 10

// CheckText checks a steering text. The error is community.ErrTooLarge above MaxText,
// community.ErrInvalid if it is empty or no UTF-8.
func CheckText(text string) error {
	switch {
	case len(text) > MaxText:
		return fmt.Errorf("%d KiB to say meanwhile: %w", len(text)>>10, community.ErrTooLarge)
	case !utf8.ValidString(text) || strings.TrimSpace(text) == "":
		return errors.Join(community.ErrInvalid, errors.New("the text is empty"))
	}
	return nil
}

// steerTimeout is how long message_agent waits for the delivery of a steering text. A model's turn
// ends in seconds and then the delivery is known; a tool may run for minutes, and waiting for it
// would block the parent.
const steerTimeout = 2 * time.Second

// steer sends a steering text to a working sub-agent. The delivery goes on in the background if it
// takes longer than steerTimeout; wait_agents reports texts that were not delivered.
func (t *Team) steer(ctx context.Context, c *Child, text string) tool.Result {
	under, cancel := t.background(ctx)
	// The buffer lets the goroutine end although steer has returned.
	delivered := make(chan conversation.Receipt, 1)
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		cancel()
		return errorResult(fmt.Errorf("%s was not told", c.Member.Name))
	}
	// The lock is held for Go, so that Close cannot wait for tasks before this one is counted.
	t.tasks.Go(func() {
		defer cancel()
		r, err := c.Handle.Steer(under, text)
		if err != nil {
			r.Outcome, r.Why = conversation.Returned, err.Error()
		}
		if r.Outcome == conversation.Returned {
			t.mu.Lock()
			c.undelivered = append(c.undelivered, text)
			t.notify()
			t.mu.Unlock()
		}
		delivered <- r
	})
	t.mu.Unlock()
	wait := time.NewTimer(steerTimeout)
	defer wait.Stop()
	reply := map[string]any{"agent_id": c.Member.ID, "name": c.Member.Name, "outcome": "on its way", "note": c.Member.Name + " is told before its model is asked the next time. If it is done before that, wait_agents says that it was not told."}
	select {
	case r := <-delivered:
		switch reply["outcome"] = r.Outcome; r.Outcome {
		case conversation.Returned:
			return errorResult(fmt.Errorf("%s was not told: %s", c.Member.Name, r.Why))
		case conversation.Kept:
			reply["note"] = c.Member.Name + " is told with the task that it begins next."
		default:
			reply["note"] = c.Member.Name + " has been told."
		}
	// The delivery goes on; the reply says that it is not known yet.
	case <-wait.C:
	case <-ctx.Done():
	}
	return tool.JSON(reply)
}
