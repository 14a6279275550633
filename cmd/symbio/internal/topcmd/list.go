package topcmd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"symbio/cmd/symbio/internal/chat"
	"symbio/internal/agent/node/fleet"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
)

// list is the community as the node has sent it, and which of its agents are shown. It is for one goroutine.
type list struct {
	*fleet.Overview
	// filter and order say which agents are shown and how; order is an index of orders.
	filter string
	order  int
}

// waitingCalls returns the calls that wait for a person, as agent and call.
func (l *list) waitingCalls() (all []string) {
	for id, a := range l.Agents {
		for _, c := range a.GetCalls() {
			if c.GetWaiting() {
				all = append(all, id+" "+c.GetCall())
			}
		}
	}
	slices.Sort(all)
	return all
}

// order is an order of the agents; compare is nil for the order of trees.
type order struct {
	name    string
	compare func(a, b fleet.AgentRow) int
}

// orders returns the values of --sort.
func orders() []order {
	states := []string{"idle", "working", "waiting"}
	return []order{
		{"tree", nil},
		{"cost", func(a, b fleet.AgentRow) int { return cmp.Compare(b.GetSpent().GetCost(), a.GetSpent().GetCost()) }},
		{"tokens", func(a, b fleet.AgentRow) int { return cmp.Compare(tokens(b.GetSpent()), tokens(a.GetSpent())) }},
		{"state", func(a, b fleet.AgentRow) int {
			return slices.Index(states, b.GetState()) - slices.Index(states, a.GetState())
		}},
		{"node", func(a, b fleet.AgentRow) int { return cmp.Compare(a.GetNodeName(), b.GetNodeName()) }},
	}
}

// rows returns the agents that match the filter, in its order. All words of the filter must occur in the name, the node,
// the definition or the state, in any case.
func (l *list) rows() []fleet.AgentRow {
	words := strings.Fields(strings.ToLower(l.filter))
	rows := l.AgentRows(func(a *symbiov1.FleetAgent) bool {
		text := strings.ToLower(strings.Join([]string{a.GetName(), a.GetNodeName(), a.GetDefinition(), a.GetState()}, " "))
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
	})
	if compare := orders()[l.order].compare; compare != nil {
		for i := range rows {
			rows[i].Depth = 0
		}
		slices.SortStableFunc(rows, compare)
	}
	return rows
}

// branch returns what stands before the name of an agent in a tree.
func branch(a fleet.AgentRow) string {
	if a.Depth == 0 {
		return ""
	}
	return strings.Repeat("  ", min(a.Depth, 7)-1) + "└ "
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
