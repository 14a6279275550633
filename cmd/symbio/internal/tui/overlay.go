package tui

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"symbio/agent/event"
	"symbio/cmd/symbio/internal/chat"
	"symbio/cmd/symbio/internal/command"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/visible"
)

// overlayKind says what is shown above the conversation.
type overlayKind int

const (
	overlayPage overlayKind = iota
	overlayAgents
	overlayApprovals
	overlaySessions
)

// overlay is a text or a list above the conversation, on the alternate screen.
type overlay struct {
	kind  overlayKind
	title string
	// rows are made for width columns by fill, so that they follow the window and what happens.
	rows  []string
	width int
	fill  func(columns int) []string
	// list is true if a row can be chosen: chosen is its number, choose takes it. top is the first row
	// on the screen.
	list        bool
	chosen, top int
	choose      func(i int)
	// page is how many rows fit.
	page int
	// asked is when members were asked for.
	asked time.Time
}

// refreshTime is how old the members in the tree of agents get.
const refreshTime = 2 * time.Second

// refresh asks for the members again.
func (o *overlay) refresh(send func(chat.Input)) {
	if o.width = 0; time.Since(o.asked) > refreshTime {
		o.asked = time.Now()
		send(chat.Input{Members: true})
	}
}

// overlayOf returns what a message opens; nil if it opens nothing.
func (m *model) overlayOf(msg tea.Msg) *overlay {
	switch msg := msg.(type) {
	case chat.Page:
		return &overlay{title: msg.Title, fill: func(columns int) []string { return wrap(clean(msg.Text), columns) }}
	case chat.OpenTranscript:
		o := &overlay{title: "Transcript", fill: func(columns int) []string { return m.transcript.full(m, columns, false) }}
		o.top = 1 << 30 // the end
		return o
	case chat.OpenDiffs:
		return &overlay{title: "Edits of this conversation", fill: func(columns int) []string { return m.transcript.full(m, columns, true) }}
	case chat.Sessions:
		o := &overlay{kind: overlaySessions, title: "Go on with a session", list: true}
		o.fill = func(int) (rows []string) {
			for _, s := range msg {
				rows = append(rows, oneLine(s.ID+"  "+s.When+"  "+s.Title))
			}
			return rows
		}
		o.choose = func(i int) { m.send(chat.Input{Text: "/resume " + msg[i].ID}) }
		return o
	case chat.Approvals:
		o := &overlay{kind: overlayApprovals, title: "Decisions that wait", list: true}
		o.fill = func(int) (rows []string) {
			for _, a := range msg {
				rows = append(rows, oneLine(a.GetNodeName())+"  "+command.Chain(a.GetName(), a.GetFor())+"  "+visible.Escape(a.GetTool())+" "+command.PlainJSON(a.GetArgs()))
			}
			return rows
		}
		o.choose = func(i int) { m.questions.first(msg[i]) }
		return o
	case chat.OpenAgents:
		return m.agentsOverlay()
	case chat.Members:
		m.transcript.members = msg
		if m.overlay != nil && m.overlay.kind == overlayAgents {
			m.overlay.width = 0
			return m.overlay
		}
	}
	return nil
}

// first puts a decision in front of the questions.
func (p *questionPanel) first(a *symbiov1.Approval) {
	q := event.Fields{ID: a.GetId(), Name: a.GetName(), For: a.GetFor(), Tool: a.GetTool(), Args: a.GetArgs(), Why: a.GetWhy(), Digest: a.GetDigest(), Rules: a.GetRules(), Diff: a.GetDiff()}
	open := []event.Fields{q}
	for _, o := range p.open {
		if o.ID != q.ID {
			open = append(open, o)
		}
	}
	p.set(open, time.Time{})
}

// agentsOverlay returns the tree: the agents of this conversation, then those of all nodes.
func (m *model) agentsOverlay() *overlay {
	o := &overlay{kind: overlayAgents, title: "Agents of all nodes: Enter speaks to one", list: true}
	var ids []string
	o.fill = func(columns int) (rows []string) {
		ids = nil
		t := &m.transcript
		for _, id := range t.order {
			rows, ids = append(rows, agentText(m.st, t.agents[id], columns-2)), append(ids, id)
		}
		for _, b := range t.members {
			if t.agents[b.GetId()] != nil || len(b.GetAccepts()) == 0 {
				continue
			}
			state := ""
			if !b.GetAvailable() {
				state = "unavailable"
			}
			rows, ids = append(rows, agentText(m.st, &agentRow{id: b.GetId(), name: b.GetName(), node: b.GetNodeName(), state: state}, columns-2)), append(ids, b.GetId())
		}
		return rows
	}
	o.choose = func(i int) {
		if m.target = ids[i]; m.target == m.transcript.root {
			m.target = ""
		}
	}
	return o
}

// overlayKey handles a key of what is open.
func (m *model) overlayKey(k tea.KeyPressMsg) {
	o := m.overlay
	switch k.String() {
	case "esc", "q":
		m.overlay = nil
	case "enter":
		m.overlay = nil
		if o.list && len(o.rows) > 0 {
			o.choose(o.chosen)
		}
	case "up", "k":
		o.move(-1)
	case "down", "j":
		o.move(1)
	case "pgup", "ctrl+b":
		o.move(-o.page)
	case "pgdown", "ctrl+f", "space":
		o.move(o.page)
	case "home", "g":
		o.move(-len(o.rows))
	case "end", "G":
		o.move(len(o.rows))
	}
}

// move moves the chosen row of a list, or the text.
func (o *overlay) move(by int) {
	if o.list {
		o.chosen += by
	} else {
		o.top += by
	}
}

// view returns what is open for the whole screen.
func (o *overlay) view(m *model) string {
	columns := m.width - 1
	if o.width != m.width {
		o.rows, o.width = o.fill(columns), m.width
	}
	o.page = max(1, m.height-2)
	o.chosen = max(0, min(o.chosen, len(o.rows)-1))
	o.top = max(0, min(o.top, len(o.rows)-o.page))
	if o.list {
		o.top = max(min(o.top, o.chosen), o.chosen-o.page+1)
	}
	rows := []string{paint(m.st.bold, cut(oneLine(o.title), columns))}
	for i := o.top; i < min(len(o.rows), o.top+o.page); i++ {
		row := o.rows[i]
		if o.list && i == o.chosen {
			row = m.st.selected.Render("> ") + row
		} else if o.list {
			row = "  " + row
		}
		rows = append(rows, cut(row, columns))
	}
	for len(rows) < o.page+1 {
		rows = append(rows, "")
	}
	keys := "Esc closes"
	if o.list {
		keys += "  Enter chooses"
	}
	return strings.Join(append(rows, paint(m.st.dim, cut(fmt.Sprintf("%s  ↑↓ PgUp PgDn  %d-%d of %d", keys, min(o.top+1, len(o.rows)), min(len(o.rows), o.top+o.page), len(o.rows)), columns))), "\n")
}

// full returns all entries in full, or the edits alone.
func (t *transcript) full(m *model, columns int, edits bool) (rows []string) {
	for _, e := range t.entries {
		if edits && e.diff == "" {
			continue
		}
		rows = append(rows, paint(m.st.bold, cut(oneLine(e.head), columns)))
		if e.body != "" && !edits {
			rows = append(rows, wrap(clean(e.body), columns)...)
		}
		if e.diff != "" {
			rows = append(rows, diffRows(m.st, e.diff, columns, 1<<20)...)
		}
		rows = append(rows, "")
	}
	return rows
}
