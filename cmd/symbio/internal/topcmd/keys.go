package topcmd

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/protobuf/types/known/durationpb"

	symbiov1 "symbio/proto/symbio/v1"
)

// key handles a key: of the line that is typed, of the page, of the lists.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	name := k.String()
	m.note.say("")
	switch {
	case name == "ctrl+c":
		return tea.Quit
	case name == "ctrl+z":
		return tea.Suspend
	case m.prompt != nil:
		return m.promptKey(k)
	case m.page != nil:
		return m.pageKey(name)
	case slices.Contains([]string{"a", "d", "m", "i", "x"}, name):
		selected := m.panels[m.focus].selected
		if m.focus == decisionsPanel && name != "a" && name != "d" {
			selected = m.decisions.find(selected).GetAgent()
		}
		return m.agentKey(name, selected)
	}
	return m.listKey(name)
}

// pageKey handles a key of the page.
func (m *model) pageKey(name string) tea.Cmd {
	p := m.page
	if p.key != nil {
		if cmd, ok := p.key(name); ok {
			return cmd
		}
	}
	switch {
	case p.Key(name):
	case name == "esc", name == "q":
		m.page = nil
	case p.agent != "":
		return m.agentKey(name, p.agent)
	}
	return nil
}

// listKey handles a key of the lists. Tab goes from the agents to what waits for the person.
func (m *model) listKey(name string) tea.Cmd {
	p := &m.panels[m.focus]
	switch name {
	case "tab", "shift+tab":
		m.tab(name == "tab")
	case "enter":
		return m.open(p)
	case "s":
		m.order = (m.order + 1) % len(orders())
	case "/":
		m.ask("/", m.filter, func(text string) tea.Cmd {
			m.filter = text
			return nil
		})
	case "esc":
		m.filter = ""
	case "?":
		m.page = textPage("symbio top", help)
	case "q":
		return tea.Quit
	default:
		if p.Key(name) {
			p.choose()
		}
	}
	return nil
}

// tab goes to the next or previous list that has rows.
func (m *model) tab(forward bool) {
	order := []int{agentsPanel, decisionsPanel, nodesPanel, eventsPanel}
	if !forward {
		slices.Reverse(order)
	}
	for i := slices.Index(order, m.focus) + 1; ; i++ {
		if m.focus = order[i%len(order)]; m.focus == agentsPanel || len(m.panels[m.focus].ids) > 0 {
			return
		}
	}
}

// open opens the chosen row of the list that is used.
func (m *model) open(p *panel) tea.Cmd {
	switch {
	case p.selected == "":
	case m.focus == decisionsPanel:
		return m.agentKey("a", p.selected)
	case m.focus == nodesPanel:
		n := m.Nodes[p.selected]
		m.page = textPage("Node "+n.GetName(), indented(n))
	case m.focus == agentsPanel:
		return openAgent(m, p.selected)
	default:
		e := m.Events[p.Chosen]
		m.page = textPage("Event "+e.Type+" of node "+e.Node, indented(e))
	}
	return nil
}

// agentKey handles a key that is about the agent or the decision with that id.
func (m *model) agentKey(name, id string) tea.Cmd {
	if name == "a" || name == "d" {
		return m.decide(id, name == "d")
	}
	a := m.Agents[id]
	if a == nil {
		m.note.say("choose an agent first: Tab goes to the agents")
		return nil
	}
	who := fmt.Sprintf("%s on %s", a.GetName(), a.GetNodeName())
	switch name {
	case "m":
		m.ask("to "+who+": ", "", func(text string) tea.Cmd { return m.steer(a, text) })
	case "i":
		return m.act(func(ctx context.Context, c symbiov1.ControlClient) (string, error) {
			reply, err := c.Interrupt(ctx, &symbiov1.InterruptRequest{Member: id})
			if reply.GetInterrupted() {
				return who + " was interrupted", err
			}
			return who + " has no task to interrupt", err
		})
	case "x":
		m.stop(a, who)
	}
	return nil
}

// steer says a text to an agent. The node answers when the agent has it, or will not get it.
func (m *model) steer(a *symbiov1.FleetAgent, text string) tea.Cmd {
	if text == "" {
		return nil
	}
	m.note.say("sent; the agent gets it with the results of its calls")
	return m.act(func(ctx context.Context, c symbiov1.ControlClient) (string, error) {
		reply, err := c.Steer(ctx, &symbiov1.SteerRequest{Member: a.GetId(), Text: text, Timeout: durationpb.New(callTimeout - callTimeout/10)})
		return fmt.Sprintf("%s: %s %s", a.GetName(), reply.GetOutcome(), reply.GetWhy()), err
	})
}

// stop ends an agent of this node after a yes.
func (m *model) stop(a *symbiov1.FleetAgent, who string) {
	if a.GetNode() != m.Self.GetId() {
		m.note.say(fmt.Sprintf("%s can be stopped on its node only, there with: symbio agents terminate %s\ni interrupts its task from here", who, a.GetId()))
		m.note.bad = true
		return
	}
	m.note.say("Stop " + who + " and its sub-agents?")
	m.ask("y/N ", "", func(text string) tea.Cmd {
		if text != "y" && text != "yes" {
			return nil
		}
		return m.act(func(ctx context.Context, c symbiov1.ControlClient) (string, error) {
			_, err := c.Terminate(ctx, &symbiov1.TerminateRequest{Member: a.GetId()})
			return who + " was stopped", err
		})
	})
}

// decide opens the decision with that id or of that agent; for an agent that does not wait the first one. deny asks for
// the reason of a no at once.
func (m *model) decide(id string, deny bool) tea.Cmd {
	d := m.decisions.find(id)
	if all := m.decisions.GetApprovals(); d == nil && m.Agents[id].GetState() != "waiting" && len(all) > 0 {
		d = all[0]
	}
	if d == nil {
		m.note.say("no decision waits")
		for _, p := range m.decisions.GetProblems() {
			text := fmt.Sprintf("%s; those of %s are not shown: %s", m.note.text, cmp.Or(p.GetNodeName(), p.GetNode()), p.GetWhy())
			m.note = note{text, true}
		}
		return nil
	}
	q := newQuestion(m, d)
	if m.page = q.page(); deny {
		q.key("d") // it opens a prompt
	}
	return nil
}
