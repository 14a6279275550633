package fleet

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"symbio/agent/event"
	"symbio/community"
	"symbio/internal/security/lazyregexp"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
)

// The states of an agent.
const (
	stateIdle    = "idle"
	stateWorking = "working"
	stateWaiting = "waiting" // for a person
)

const (
	// maxText bounds a text of an agent or event, maxName a name, in bytes.
	maxText = 256
	maxName = 128
	// maxCalls bounds the running calls of an agent that are shown, maxProblems the lines of a node.
	maxCalls    = 32
	maxProblems = 16
	// maxEventData bounds the data of an event that is decoded, maxShortData what is left of it, in
	// bytes; maxItems the items of a list or object in it, maxNesting how deep it goes.
	maxEventData = 1 << 20
	maxShortData = 4 << 10
	maxItems     = 32
	maxNesting   = 4
)

// memberID matches the id of a member.
var memberID = lazyregexp.New(`^[0-9a-f]{32}$`)

// cleanAgent makes the message of an agent fit to be shown, whatever it has: texts are printable and
// bounded, and node is the sender's.
func cleanAgent(a *symbiov1.FleetAgent, node community.NodeID, name string) {
	a.Node, a.NodeName = string(node), name
	for _, s := range []*string{&a.Name, &a.Definition, &a.Model, &a.Session} {
		*s = visible.Line(*s, maxName)
	}
	a.Task = visible.Line(a.Task, maxText)
	if !memberID().MatchString(a.Parent) {
		a.Parent = ""
	}
	if a.State != stateWorking && a.State != stateWaiting {
		a.State = stateIdle
	}
	a.Since, a.Spent = validTime(a.Since), cleanSpending(a.Spent)
	if l := a.Limits; l != nil {
		l.Cost = cleanAmount(l.Cost)
		if l.Wall.CheckValid() != nil {
			l.Wall = durationpb.New(0)
		}
	}
	a.Calls = slices.DeleteFunc(a.Calls, func(c *symbiov1.FleetCall) bool { return c == nil })
	a.Calls = a.Calls[:min(len(a.Calls), maxCalls)]
	for _, c := range a.Calls {
		c.Call, c.Tool, c.Args, c.Since = visible.Line(c.Call, maxName), visible.Line(c.Tool, maxName), visible.Line(c.Args, maxText), validTime(c.Since)
	}
	a.PlanDone = min(a.PlanDone, a.PlanSteps)
}

// cleanNode returns the fields that a node says of itself, fit to be shown.
func cleanNode(n *symbiov1.FleetNode) *symbiov1.FleetNode {
	n = proto.CloneOf(n)
	out := &symbiov1.FleetNode{
		Version: visible.Line(n.GetVersion(), maxName), Started: validTime(n.GetStarted()), Agents: n.GetAgents(), Working: n.GetWorking(),
		Waiting: n.GetWaiting(), Spent: cleanSpending(n.GetSpent()), Process: n.GetProcess(),
	}
	if p := out.Process; p != nil {
		p.Heap, p.Memory = cleanAmount(p.Heap), cleanAmount(p.Memory)
	}
	for _, line := range n.GetProblems()[:min(len(n.GetProblems()), maxProblems)] {
		out.Problems = append(out.Problems, visible.Line(line, maxText))
	}
	return out
}

// cleanEvent returns the message of another node's event, fit to be shown; nil if it is none.
func cleanEvent(m *symbiov1.Event, nodeName string) *symbiov1.Event {
	var e event.Event
	if len(m.GetJson()) > maxEventData || json.Unmarshal(m.GetJson(), &e) != nil || e.Agent != "" && !memberID().MatchString(e.Agent) {
		return nil
	}
	if e.Node, e.Type = nodeName, visible.Line(e.Type, maxName); e.Type == "" {
		return nil
	}
	return shorten(e)
}

// shorten returns the message of an event with short, printable texts and few items. A part that is too large
// even then is left out.
func shorten(e event.Event) *symbiov1.Event {
	e.Name, e.Text, e.Why = visible.Line(e.Name, maxName), visible.Line(e.Text, maxText), visible.Line(e.Why, maxText)
	line, err := json.Marshal(e)
	if err == nil && len(line) <= maxEventData {
		var fields map[string]any
		numbers := json.NewDecoder(bytes.NewReader(line))
		numbers.UseNumber()
		if err = numbers.Decode(&fields); err == nil {
			line, err = json.Marshal(shortenValue(fields, 0))
		}
	}
	switch {
	case err == nil && len(line) <= maxShortData:
		return &symbiov1.Event{Json: line}
	case e.Part == nil:
		return nil
	}
	e.Part = nil
	return shorten(e)
}

func cleanSpending(s *symbiov1.Spending) *symbiov1.Spending {
	if s != nil {
		s.Cost = cleanAmount(s.Cost)
	}
	return s
}

// cleanAmount returns a number that is not below 0, and is one.
func cleanAmount(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return max(v, 0)
}

func validTime(t *timestamppb.Timestamp) *timestamppb.Timestamp {
	if t.CheckValid() != nil {
		return nil
	}
	return t
}

// shortenValue returns a decoded JSON value with short, printable texts and few items.
func shortenValue(v any, depth int) any {
	switch v := v.(type) {
	case string:
		return visible.Line(v, maxText)
	case []any:
		if depth >= maxNesting {
			return nil
		}
		out := make([]any, min(len(v), maxItems))
		for i := range out {
			out[i] = shortenValue(v[i], depth+1)
		}
		return out
	case map[string]any:
		if depth >= maxNesting {
			return nil
		}
		out := map[string]any{}
		for name, item := range v {
			if len(out) < maxItems && len(name) <= maxName && name == strings.ToValidUTF8(name, "") {
				out[visible.Line(name, 0)] = shortenValue(item, depth+1)
			}
		}
		return out
	}
	return v
}
