package team

import (
	"context"
	"time"

	_ "embed"

	"symbio/agent/tool"
)

//go:embed stop_agents.md
var stopText string

// stopArgs are the arguments of stop_agents. Models read the descriptions in the tags.
type stopArgs struct {
	Agents []string `json:"agents,omitempty" jsonschema:"agent_ids or names of your sub-agents; absent = all of them"`
}

var stopTool = tool.NewKind[stopArgs](tool.Spec{Name: "stop_agents", Description: stopText})

// finishTimeout is how long stop_agents waits for the tasks of stopped agents to end. They end
// within milliseconds, unless an agent's node does not answer.
const finishTimeout = 5 * time.Second

// stop stops sub-agents and their descendants concurrently, and answers with the state that each
// had. Tasks are cancelled first, so that no sub-agent starts new work while another one is being
// stopped.
func (t *Team) stop(ctx context.Context, args stopArgs) tool.Result {
	some, err := t.find(args.Agents)
	if err != nil {
		return errorResult(err)
	}
	t.mu.Lock()
	for _, c := range some {
		if c.task != nil {
			c.task.cancel()
		}
	}
	t.mu.Unlock()
	for i, c := range some {
		some[i] = t.latest(c)
	}
	stopAll(ctx, some)
	t.await(ctx, some, waitArgs{Seconds: finishTimeout.Seconds()})
	reply := struct {
		Stopped []status `json:"stopped"`
	}{Stopped: []status{}}
	for _, c := range some {
		reply.Stopped = append(reply.Stopped, t.inspect(c, maxResult/len(some)))
	}
	return tool.JSON(reply)
}
