package topcmd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"symbio/agent/budget"
	"symbio/agent/event"
	"symbio/cmd/symbio/internal/chat"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/cmd/symbio/internal/tui"
	"symbio/internal/agent/node/fleet"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
)

// The lists of the screen, from top to bottom.
const (
	decisionsPanel = iota
	nodesPanel
	agentsPanel
	eventsPanel
	panelCount
)

// panel is a list. Its selected row stays the same when rows move.
type panel struct {
	tui.Scroll
	heading string
	// ids are the ids of the shown rows, and row draws one.
	ids      []string
	row      func(i int) string
	selected string
}

// choose remembers the chosen row.
func (p *panel) choose() {
	p.selected = ""
	if p.Chosen = max(0, min(p.Chosen, len(p.ids)-1)); len(p.ids) > 0 {
		p.selected = p.ids[p.Chosen]
	}
}

// look is how rows are drawn: the styles, the size of the terminal, and the time until which durations go.
type look struct {
	st            tui.Styles
	width, height int
	now           time.Time
}

// The size from which there is room for more columns, and for the events below the agents.
const (
	wideColumns = 120
	tallRows    = 36
)

// cell is a text in a column. A positive width is filled up at the right, a negative one at the left; 0 takes what is
// left, and ends with time. A wide cell is not shown on a narrow terminal.
type cell struct {
	head, text, time string
	width            int
	style            lipgloss.Style
	wide             bool
}

// line lays cells out, as their texts or as their headings.
func (k *look) line(cells []cell, heading bool) string {
	row, columns := "", k.width-3 // behind the mark of the chosen row, and before the last column
	for _, c := range cells {
		if c.wide && k.width < wideColumns {
			continue
		}
		text, width := terminal.Printable(c.text), c.width
		if heading {
			text, c.style, c.time = c.head, lipgloss.NewStyle(), ""
		}
		switch {
		case width == 0 && c.time != "":
			text = tui.Cut(text, columns-ansi.StringWidth(row)-1-len(c.time)) + " " + c.time
		case width == 0:
			text = tui.Cut(text, columns-ansi.StringWidth(row))
		case width > 0:
			text = tui.Pad(text, k.spread(width)) + " "
		default:
			text = fmt.Sprintf("%*s ", -width, tui.Cut(text, -width))
		}
		row += tui.Paint(c.style, text)
	}
	return row
}

// spread returns the width of a column of texts: more on a wide terminal.
func (k *look) spread(width int) int {
	if k.width < wideColumns {
		return width
	}
	return width * 9 / 5
}

// decisionCells, nodeCells, agentCells and eventCells return the cells of rows; the zero element gives the heading.
func (k *look) decisionCells(a *symbiov1.Approval) []cell {
	return []cell{
		{head: "DECISION FOR", width: 20, text: command.Chain(a.GetName(), a.GetFor()), style: k.stateStyle("waiting")},
		{head: "NODE", width: 9, text: a.GetNodeName()},
		{head: "CALL, AND TIME LEFT", text: callText(a.GetTool(), string(a.GetArgs())), time: k.left(a), style: k.st.Warn},
	}
}

func (k *look) nodeCells(n *symbiov1.FleetNode) []cell {
	cells := []cell{{head: "NODE", width: 20, text: n.GetName(), style: k.st.Bold}, {head: "STATE", width: 11, text: n.GetState(), style: k.stateStyle(n.GetState())}}
	last := cell{head: "RTT, PROBLEM", text: cmp.Or(n.GetWithheld(), n.GetWhy(), strings.Join(n.GetProblems(), "; ")), style: k.st.Bad}
	if n.GetAgents() == 0 && last.text != "" && k.height > 0 { // there are no figures, and the reason needs the room
		return append(cells, last)
	}
	if last.text == "" && n.GetRttMs() > 0 {
		last = cell{head: last.head, text: fmt.Sprintf("%.1f ms", n.GetRttMs())}
	}
	return append(cells, cell{head: "AGENTS", width: -6, text: fmt.Sprint(n.GetAgents())}, cell{head: "WORK", width: -4, text: fmt.Sprint(n.GetWorking())},
		cell{head: "WAIT", width: -4, text: fmt.Sprint(n.GetWaiting())}, cell{head: "COST", width: -7, text: fmt.Sprintf("$%.2f", n.GetSpent().GetCost())},
		cell{head: "TOKENS", width: -6, text: budget.Rounded(tokens(n.GetSpent())), wide: true}, cell{head: "VERSION", width: 9, text: n.GetVersion(), wide: true},
		cell{head: "ADDRESS", width: 14, text: n.GetAddr(), wide: true}, last)
}

func (k *look) agentCells(a fleet.AgentRow) []cell {
	does := cell{head: "DOES"}
	var since time.Time
	if does.text, since = doing(a.FleetAgent); a.GetState() != "idle" {
		does.time = k.since(since)
	} else {
		does.style = k.st.Dim
	}
	plan := ""
	if a.GetPlanSteps() > 0 {
		plan = fmt.Sprintf("%d/%d", a.GetPlanDone(), a.GetPlanSteps())
	}
	return []cell{
		{head: "AGENT", width: 20, text: branch(a) + a.GetName()}, {head: "NODE", width: 9, text: a.GetNodeName()},
		{head: "STATE", width: 7, text: a.GetState(), style: k.stateStyle(a.GetState())}, {head: "MODEL", width: 12, text: a.GetModel(), wide: true},
		{head: "PLAN", width: -5, text: plan, wide: true}, {head: "TURN", width: -4, text: fmt.Sprint(a.GetTurn())},
		{head: "CTX", width: -4, text: filled(a.FleetAgent)},
		{head: "COST", width: -6, text: fmt.Sprintf("$%.2f", a.GetSpent().GetCost())},
		{head: "TOKENS", width: -6, text: budget.Rounded(tokens(a.GetSpent())), wide: true}, does,
	}
}

func (k *look) eventCells(e event.Event) []cell {
	return []cell{{head: "EVENT", width: 5, text: e.Time.Local().Format("15:04")}, {text: command.EventLine(e)}}
}

// stateStyle returns the style of the state of an agent or a node.
func (k *look) stateStyle(state string) lipgloss.Style {
	switch state {
	case "waiting":
		return k.st.Bold.Inherit(k.st.Warn)
	case "working", "connected", "self":
		return k.st.Good
	case "unavailable", "incompatible", "refused":
		return k.st.Bad
	}
	return k.st.Dim
}

// since returns a duration until now; "" if it is not known.
func (k *look) since(at time.Time) string {
	if at.Unix() <= 0 {
		return ""
	}
	return chat.DurationText(k.now.Sub(at).Truncate(time.Second))
}

// left returns how long a decision still waits; "" if it waits without an end.
func (k *look) left(a *symbiov1.Approval) string {
	if a.GetDeadline().GetSeconds() <= 0 {
		return ""
	}
	return chat.DurationText(max(0, a.GetDeadline().AsTime().Sub(k.now).Truncate(time.Second)))
}

// row returns a row of a list.
func (k *look) row(text string, chosen bool) string {
	if !chosen {
		return tui.Cut("  "+text, k.width-1)
	}
	return tui.Paint(k.st.Selected, tui.Pad("> "+ansi.Strip(text), k.width-1))
}

// position returns a row with the part that is on the screen at its end, if that is not all.
func (k *look) position(text string, from, to, of int) string {
	at := ""
	if to-from < of {
		at = fmt.Sprintf(" %d-%d of %d", from+1, to, of)
	}
	return tui.Cut(tui.Pad(text, max(0, k.width-1-len(at)))+at, k.width-1)
}

// table puts elements into a list. Only rows on the screen are drawn.
func table[T any](m *model, at int, all []T, id func(T) string, cells func(T) []cell) {
	var none T
	p := &m.panels[at]
	p.heading, p.ids = m.look.line(cells(none), true), command.Map(all, id)
	p.row = func(i int) string { return m.look.line(cells(all[i]), false) }
	if i := slices.Index(p.ids, p.selected); i >= 0 {
		p.Chosen = i
	}
	p.choose()
}

// fill makes the rows of the lists. The list of events shows the latest, unless the person is there.
func (m *model) fill() {
	if events := &m.panels[eventsPanel]; m.focus != eventsPanel {
		events.selected, events.Chosen = "", len(m.Events)
	}
	table(m, decisionsPanel, m.decisions.GetApprovals(), (*symbiov1.Approval).GetId, m.look.decisionCells)
	table(m, nodesPanel, m.NodeRows(), (*symbiov1.FleetNode).GetId, m.look.nodeCells)
	table(m, agentsPanel, m.rows(), fleet.AgentRow.GetId, m.look.agentCells)
	table(m, eventsPanel, m.Events, func(e event.Event) string { return fmt.Sprint(e.Node, e.Seq, e.Time.UnixNano()) }, m.look.eventCells)
	if len(m.panels[m.focus].ids) == 0 {
		m.focus = agentsPanel
	}
}

// View implements tea.Model.
func (m *model) View() tea.View {
	below := m.below()
	room := max(1, m.look.height-len(below))
	rows := m.lists(room)
	if m.page != nil {
		rows = m.page.view(&m.look, room)
	}
	rows = append(rows[:min(len(rows), room)], slices.Repeat([]string{""}, max(0, room-len(rows)))...)
	v := tea.NewView(strings.Join(append(rows, below...), "\n"))
	v.AltScreen = true
	if m.prompt != nil {
		v.Cursor = m.prompt.Cursor()
		v.Cursor.Y = m.look.height - 1
	}
	return v
}

// lists returns the header and the lists.
func (m *model) lists(room int) []string {
	rows := []string{m.header()}
	for i, n := range m.heights(room - 1) {
		if n == 0 {
			continue
		}
		p, style, mark := &m.panels[i], m.look.st.Dim, "  "
		if i == m.focus {
			style, mark = m.look.st.Bold, "▸ "
		}
		from, to := p.Fit(len(p.ids), n-1)
		rows = append(rows, tui.Paint(style, m.look.position(mark+p.heading, from, to, len(p.ids))))
		for j := from; j < to; j++ {
			rows = append(rows, m.look.row(p.row(j), i == m.focus && j == p.Chosen))
		}
		rows = append(rows, slices.Repeat([]string{""}, n-1-(to-from))...)
	}
	return rows
}

// heights returns how many rows of room each list takes, its heading included. The agents get what the others leave.
func (m *model) heights(room int) (rows [panelCount]int) {
	shares := [panelCount]int{decisionsPanel: max(2, room/6), nodesPanel: max(2, room/6)}
	if m.look.height >= tallRows {
		shares[eventsPanel] = room / 4
	}
	if m.focus != agentsPanel {
		shares[m.focus] = room / 2
	}
	rows[agentsPanel] = room
	for i, share := range shares {
		if n := min(len(m.panels[i].ids), share); n > 0 {
			rows[i] = n + 1
			rows[agentsPanel] -= n + 1
		}
	}
	rows[agentsPanel] = max(2, rows[agentsPanel])
	return rows
}

// header returns the first row: what the community is and does.
func (m *model) header() string {
	t, style := m.Total(), m.look.st.Bold
	text := fmt.Sprintf("%s · %s · %s: %d working", m.Self.GetName(), visible.Plural(len(m.Nodes), "node"), visible.Plural(int(t.GetAgents()), "agent"), t.GetWorking())
	if t.GetWaiting() > 0 {
		text, style = text+fmt.Sprintf(", %d waiting", t.GetWaiting()), m.look.stateStyle("waiting")
	}
	text += fmt.Sprintf(" · $%.2f · %s tokens", t.GetSpent().GetCost(), budget.Rounded(tokens(t.GetSpent())))
	if m.link.gone {
		text, style = "node "+m.Self.GetName()+" is gone; waiting for it to come back (q leaves)", m.look.st.Bad
	}
	return tui.Paint(style, tui.Cut(terminal.Printable(text), m.look.width-1))
}

// maxNoteRows bounds the rows of a remark.
const maxNoteRows = 4

// below returns the last rows: the remark, and what is typed or the keys.
func (m *model) below() (rows []string) {
	columns, style := m.look.width-1, m.look.st.Accent
	if m.note.bad {
		style = m.look.st.Bad
	}
	if m.note.text != "" {
		note := tui.Wrap(terminal.PrintableLines(m.note.text), columns)
		rows = strings.Split(tui.Paint(style, strings.Join(note[:min(len(note), maxNoteRows)], "\n")), "\n")
	}
	if m.prompt != nil {
		m.prompt.Prompt = tui.Cut(m.prompt.Prompt, columns/2)
		m.prompt.SetWidth(max(8, columns-ansi.StringWidth(m.prompt.Prompt)-1))
		return append(rows, strings.Map(tui.Drawable, ansi.Strip(m.prompt.View())))
	}
	keys := "Enter open  a/d answer  m steer  i interrupt  x stop  / filter  s sort  ? help"
	if m.page != nil {
		keys = m.page.keys
	} else if m.filter != "" || m.order > 0 {
		keys = fmt.Sprintf("by %s /%s  ", orders()[m.order].name, m.filter) + keys
	}
	return append(rows, tui.Paint(m.look.st.Dim, tui.Cut(terminal.Printable(keys), columns)))
}
