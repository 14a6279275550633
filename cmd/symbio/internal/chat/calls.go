package chat

import (
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
	// What names the tool and its most telling argument, Args has all of them.
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
func (c *Calls) Event(e event.Event) (ended RunningCall, took string) {
	f := event.PartOf[event.Tool](e)
	i := slices.IndexFunc(*c, func(o *RunningCall) bool { return o.Agent == e.Agent && o.ID == f.Call })
	switch {
	case e.Type == event.TypeToolCall:
		if len(*c) >= maxRunningCalls {
			*c = slices.Delete(*c, 0, maxRunningCalls/2)
		}
		*c = append(*c, &RunningCall{Agent: e.Agent, ID: f.Call, What: strings.TrimSpace(f.Tool + " " + ArgSummary(f.Args)), Args: string(f.Args), Began: e.Time})
	case i >= 0 && e.Type == event.TypeProgress:
		(*c)[i].Progress = ProgressText(e)
	case i >= 0 && e.Type == event.TypeToolResult:
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
	add := func(kind, text string, part any) {
		shown = append(shown, event.Event{Type: kind, Agent: agent, Text: text, Part: part})
	}
	for i, m := range messages {
		switch {
		case m.Role == llm.User:
			shown = append(shown, Echo(m.Text))
		case m.Text != "":
			add(event.TypeText, m.Text, event.Turn{Turn: i + 1})
			add(event.TypeTurn, "", event.Turn{Turn: i + 1})
		}
		for _, c := range m.Calls {
			add(event.TypeToolCall, "", event.Tool{Tool: c.Name, Call: c.ID, Args: c.Args})
		}
		for _, r := range m.Results {
			add(event.TypeToolResult, r.Text, event.Tool{Tool: r.Name, Call: r.CallID, Failed: r.IsError})
		}
	}
	return shown
}
