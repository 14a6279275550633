package chat

import (
	"strings"
	"testing"

	"symbio/agent/event"
)

// Agents come in any order; each stands below its parent.
func TestChildrenStandBelowTheirParent(t *testing.T) {
	var all Agents
	for _, one := range []struct{ id, parent string }{{"root", ""}, {"a", "root"}, {"b", "root"}, {"a1", "a"}, {"b1", "b"}, {"a2", "a"}, {"a11", "a1"}, {"c", "root"}, {"a12", "a1"}, {"stray", "unknown"}} {
		all.Event(event.Event{Agent: one.id, Parent: one.parent})
	}
	var got []string
	for _, id := range all.Order {
		got = append(got, strings.Repeat(".", all.Get(id).Depth)+id)
	}
	if want := "root .a ..a1 ...a11 ...a12 ..a2 .b ..b1 .c stray"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestLentAgentIsOnItsNode(t *testing.T) {
	var all Agents
	all.Event(event.Event{Agent: "root", Node: "desk"})
	all.Event(event.Event{Agent: "root", Node: "desk", Part: event.Spawn{Member: "a", On: "kitchen"}})
	all.Event(event.Event{Agent: "a", Node: "desk", Parent: "root"})
	if a, root := all.Get("a").Node, all.Get("root").Node; a != "kitchen" || root != "desk" {
		t.Errorf("the agents are on %q and %q, want kitchen and desk", a, root)
	}
}
