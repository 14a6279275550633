package agent

import (
	"context"
	"sync"
	"time"

	_ "embed"

	"symbio/agent/tool"
)

//go:embed stop_agents.md
var stopText string

type stopArgs struct {
	Agents []string `json:"agents,omitempty" jsonschema:"agent_ids or names of your sub-agents; absent = all of them"`
}

// stops is stop_agents, of which each agent has its own.
var stops = tool.NewKind[stopArgs](tool.Spec{Name: "stop_agents", Description: stopText})

// noted is how long it may take until it is noted that a task has ended whose agent is gone.
const noted = 5 * time.Second

// stop ends sub-agents with all below them, side by side, and answers with how they stood.
func (a *Agent) stop(ctx context.Context, args stopArgs) tool.Result {
	l := a.life
	some, err := l.offspring(args.Agents)
	if err != nil {
		return failed(err)
	}
	var ending sync.WaitGroup
	for _, c := range some {
		l.mu.Lock()
		if c.work != nil {
			c.work.cancel()
		}
		l.mu.Unlock()
		ending.Go(func() { c.hand.stop(ctx) })
	}
	ending.Wait()
	l.await(ctx, some, waitArgs{Seconds: noted.Seconds()}) // what they worked on has ended; that is to be noted
	reply := struct {
		Stopped []looked `json:"stopped"`
	}{Stopped: []looked{}}
	for _, c := range some {
		reply.Stopped = append(reply.Stopped, l.look(c, mostResult/len(some)))
	}
	return answered(reply)
}
