package topcmd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"symbio/agent/event"
	"symbio/cmd/symbio/internal/chat"
	nodefleet "symbio/internal/agent/node/fleet"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
)

// maxEvents bounds the events that are remembered; the oldest go first.
const maxEvents = 500

// fleet is the community as the node has sent it: the latest node and agent of each id. It is for one goroutine.
type fleet struct {
	nodes  map[string]*symbiov1.FleetNode
	agents map[string]*symbiov1.FleetAgent
	events []event.Event
	// self is the node that sends it; nil before the first change.
	self *symbiov1.FleetNode
	// filter and order say which agents are shown and how; order is an index of orders.
	filter string
	order  int
}

func newFleet() *fleet {
	return &fleet{nodes: map[string]*symbiov1.FleetNode{}, agents: map[string]*symbiov1.FleetAgent{}}
}

// apply takes a change up.
func (f *fleet) apply(c *symbiov1.FleetChange) {
	nodefleet.Apply(c, f.nodes, f.agents)
	for _, n := range c.GetNodes() {
		if n.GetSelf() {
			f.self = n
		}
	}
	f.events = append(f.events, nodefleet.Events(c)...)
	f.events = f.events[max(0, len(f.events)-maxEvents):]
}

// total returns what all nodes together have, as if they were one.
func (f *fleet) total() *symbiov1.FleetNode {
	t := &symbiov1.FleetNode{Spent: &symbiov1.Spending{}}
	for _, n := range f.nodes {
		t.Agents, t.Working, t.Waiting = t.GetAgents()+n.GetAgents(), t.GetWorking()+n.GetWorking(), t.GetWaiting()+n.GetWaiting()
		t.Spent.Input += n.GetSpent().GetInput()
		t.Spent.Output += n.GetSpent().GetOutput()
		t.Spent.Cost += n.GetSpent().GetCost()
	}
	return t
}

// waitingCalls returns the calls that wait for a person, as agent and call.
func (f *fleet) waitingCalls() (all []string) {
	for id, a := range f.agents {
		for _, c := range a.GetCalls() {
			if c.GetWaiting() {
				all = append(all, id+" "+c.GetCall())
			}
		}
	}
	slices.Sort(all)
	return all
}

// nodeRows returns the nodes: this one, then the others by name.
func (f *fleet) nodeRows() []*symbiov1.FleetNode {
	return slices.SortedFunc(maps.Values(f.nodes), func(a, b *symbiov1.FleetNode) int {
		return cmp.Compare(f.nodeKey(a.GetId(), a.GetName()), f.nodeKey(b.GetId(), b.GetName()))
	})
}

// nodeKey returns a text by which nodes are sorted.
func (f *fleet) nodeKey(id, name string) string {
	if id == f.self.GetId() {
		return ""
	}
	return "\x01" + name + "\x00" + id
}

// agentRow is an agent in a list. path has what the agents above it and it are sorted by, the highest first.
type agentRow struct {
	*symbiov1.FleetAgent
	path []string
}

// order is an order of the agents; compare is nil for that of trees.
type order struct {
	name    string
	compare func(a, b agentRow) int
}

// orders returns the values of --sort.
func orders() []order {
	states := []string{"idle", "working", "waiting"}
	return []order{
		{"tree", nil},
		{"cost", func(a, b agentRow) int { return cmp.Compare(b.GetSpent().GetCost(), a.GetSpent().GetCost()) }},
		{"tokens", func(a, b agentRow) int { return cmp.Compare(tokens(b.GetSpent()), tokens(a.GetSpent())) }},
		{"state", func(a, b agentRow) int {
			return slices.Index(states, b.GetState()) - slices.Index(states, a.GetState())
		}},
		{"node", func(a, b agentRow) int { return cmp.Compare(a.GetNodeName(), b.GetNodeName()) }},
	}
}

// maxDepth bounds the agents above one that are looked at. Parents can form a circle, as a lying node can report.
const maxDepth = 32

// rows returns the agents that match the filter, in its order. All words of the filter must occur in the name, the node,
// the definition or the state, in any case. In trees an agent stands below the one that spawned it, on whatever node; if
// that one is not shown, below the next above it that is.
func (f *fleet) rows() (rows []agentRow) {
	words := strings.Fields(strings.ToLower(f.filter))
	shown := map[string]bool{}
	for id, a := range f.agents {
		text := strings.ToLower(strings.Join([]string{a.GetName(), a.GetNodeName(), a.GetDefinition(), a.GetState()}, " "))
		shown[id] = !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
	}
	for id, a := range f.agents {
		if !shown[id] {
			continue
		}
		var path []string
		for up, steps := a, 0; up != nil && steps < maxDepth; up, steps = f.agents[up.GetParent()], steps+1 {
			if shown[up.GetId()] {
				path = append(path, f.nodeKey(up.GetNode(), up.GetNodeName())+"\x00"+up.GetName()+"\x00"+up.GetId())
			}
		}
		slices.Reverse(path)
		rows = append(rows, agentRow{a, path})
	}
	slices.SortFunc(rows, func(a, b agentRow) int { return slices.Compare(a.path, b.path) })
	if compare := orders()[f.order].compare; compare != nil {
		for i := range rows {
			rows[i].path = nil
		}
		slices.SortStableFunc(rows, compare)
	}
	return rows
}

// branch returns what stands before the name of an agent in a tree.
func (a agentRow) branch() string {
	if len(a.path) < 2 {
		return ""
	}
	return strings.Repeat("  ", min(len(a.path), 8)-2) + "└ "
}

// doing returns what an agent does: its call that waits for a person or began last, else its task; and since when.
func doing(a *symbiov1.FleetAgent) (text string, since time.Time) {
	calls := a.GetCalls()
	if len(calls) == 0 {
		return a.GetTask(), a.GetSince().AsTime()
	}
	c := calls[len(calls)-1]
	if i := slices.IndexFunc(calls, (*symbiov1.FleetCall).GetWaiting); i >= 0 {
		c = calls[i]
	}
	if text = callText(c.GetTool(), c.GetArgs()); len(calls) > 1 {
		text = visible.Plural(len(calls), "call") + ": " + text
	}
	return text, c.GetSince().AsTime()
}

// callText returns a call in a row. args may be cut.
func callText(tool, args string) string {
	for _, end := range []string{"", `"}`, `}`, `null}`} {
		if json.Valid([]byte(args + end)) {
			args += end
			break
		}
	}
	return strings.TrimSpace(tool + " " + chat.ArgSummary([]byte(args)))
}

func tokens(s *symbiov1.Spending) int64 { return count(s.GetInput() + s.GetOutput()) }

// count returns a number of another node as one that can be shown.
func count(n uint64) int64 { return int64(min(n, 1<<62)) }

// filled returns how much of the model's window an agent has filled; "" if that is not known.
func filled(a *symbiov1.FleetAgent) string {
	if a.GetWindow() == 0 {
		return ""
	}
	return fmt.Sprintf("%d%%", 100*a.GetContext()/a.GetWindow())
}
