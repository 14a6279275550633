package chat

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"symbio/agent/event"
	"symbio/agent/llm"
)

// Calls are the tool calls that have not ended, the latest last. It is for one goroutine.
type Calls []*RunningCall

// RunningCall is a tool call that has not ended.
type RunningCall struct {
	// Agent and ID are the ids of the agent and of its call.
	Agent, ID string
	// What is the tool and its most telling argument, Args all of them.
	What, Args string
	// Progress is the latest progress of the call, in words.
	Progress string
	Began    time.Time
}

// maxRunningCalls bounds the calls that are remembered. When there are more, the oldest half is forgotten and ends
// without a time. A call whose result was dropped in a gap of events stays until the turn ends.
const maxRunningCalls = 1000

// Event follows an event. For the result of a call it returns the call and how long it took; for one that is not
// known, a call with the name of its tool and no time.
func (c *Calls) Event(e event.Event, f event.Fields) (ended RunningCall, took string) {
	i := slices.IndexFunc(*c, func(o *RunningCall) bool { return o.Agent == e.Agent && o.ID == f.Call })
	switch {
	case e.Type == "tool_call":
		if len(*c) >= maxRunningCalls {
			*c = slices.Delete(*c, 0, maxRunningCalls/2)
		}
		*c = append(*c, &RunningCall{Agent: e.Agent, ID: f.Call, What: strings.TrimSpace(f.Tool + " " + ArgSummary(f.Args)), Args: string(f.Args), Began: e.Time})
	case i >= 0 && e.Type == "progress":
		(*c)[i].Progress = ProgressText(f)
	case i >= 0 && e.Type == "tool_result":
		ended = *(*c)[i]
		*c = slices.Delete(*c, i, i+1)
		if !ended.Began.IsZero() {
			took = DurationText(e.Time.Sub(ended.Began))
		}
		return ended, took
	}
	return RunningCall{What: f.Tool}, ""
}

// Past returns what was shown of messages when they came: an Echo for each of the person's, and the events of the agent. It
// is not known when they came, so the events have no times.
func Past(agent string, messages []llm.Message) (shown []any) {
	add := func(kind string, f map[string]any) {
		data, _ := json.Marshal(f) // it cannot fail: the arguments were decoded from JSON
		shown = append(shown, event.Event{Type: kind, Agent: agent, Data: data})
	}
	for i, m := range messages {
		switch {
		case m.Role == llm.User:
			shown = append(shown, Echo(m.Text))
		case m.Text != "":
			add("text", map[string]any{"turn": i + 1, "text": m.Text})
			add("turn", nil)
		}
		for _, c := range m.Calls {
			add("tool_call", map[string]any{"tool": c.Name, "call": c.ID, "args": c.Args})
		}
		for _, r := range m.Results {
			add("tool_result", map[string]any{"tool": r.Name, "call": r.CallID, "text": r.Text, "failed": r.IsError})
		}
	}
	return shown
}
