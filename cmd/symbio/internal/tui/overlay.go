package tui

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"symbio/agent/event"
	"symbio/cmd/symbio/internal/chat"
	"symbio/cmd/symbio/internal/command"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/permission"
)

// overlay is a text or a list above the conversation, on the alternate screen.
type overlay struct {
	title string
	// tree is true if it is the tree of agents, which is filled anew while it is open.
	tree bool
	// rows are made for width columns by fill, so that they follow the window and what happens.
	rows  []string
	width int
	fill  func(columns int) []string
	// choose takes the number of the chosen row of a list.
	Scroll
	choose func(i int)
	// stop is for the key x on a row, if that does something. question is what x asks before it is pressed again.
	stop     func(i int, again bool)
	question string
	search   search
	// asked is when members were asked for.
	asked time.Time
}

// search is the text that n and N look for, and found the number of the row that has it. typing is true while the text is
// typed, behind a /.
type search struct {
	text   string
	found  int
	typing bool
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
		return &overlay{title: msg.Title, fill: func(columns int) []string { return Wrap(clean(msg.Text), columns) }}
	case chat.Memory:
		return &overlay{title: msg.Title, fill: func(columns int) []string { return Conversation(m.look.st, msg.Messages, columns, m.look.links) }}
	case chat.OpenTranscript:
		o := &overlay{title: "Transcript", fill: func(columns int) []string { return m.transcript.full(m.look.st, columns, false) }}
		o.Top = 1 << 30 // the end
		return o
	case chat.OpenDiffs:
		return &overlay{title: "Edits of this conversation", fill: func(columns int) []string { return m.transcript.full(m.look.st, columns, true) }}
	case chat.Sessions:
		o := &overlay{title: "Go on with a session", Scroll: Scroll{List: true}}
		o.fill = func(int) (rows []string) {
			for _, s := range msg {
				rows = append(rows, OneLine(s.ID+"  "+s.When+"  "+s.Title))
			}
			return rows
		}
		o.choose = func(i int) { m.send(chat.Input{Text: "/resume " + msg[i].ID}) }
		return o
	case chat.Approvals:
		o := &overlay{title: "Decisions that wait", Scroll: Scroll{List: true}}
		o.fill = func(int) (rows []string) {
			for _, a := range msg {
				rows = append(rows, OneLine(a.GetNodeName())+"  "+command.DecisionText(a.GetName(), a.GetFor(), "  ", a.GetTool())+" "+command.PlainJSON(a.GetArgs()))
			}
			return rows
		}
		o.choose = func(i int) { m.questions.first(msg[i], &m.input) }
		return o
	case chat.OpenAgents:
		return m.agentsOverlay()
	case chat.Members:
		m.transcript.members = msg
		if m.overlay != nil && m.overlay.tree {
			m.overlay.width = 0
			return m.overlay
		}
	}
	return nil
}

// QuestionOf returns a decision that waits as the event about it has it.
func QuestionOf(a *symbiov1.Approval) chat.Question {
	var offers []permission.Offer
	for _, o := range a.GetOffers() {
		offers = append(offers, permission.Offer{Kind: o.GetKind(), Text: o.GetText(), Rules: o.GetRules(), Covers: o.GetCovers()})
	}
	return chat.Question{
		Event: event.Event{Name: a.GetName(), Why: a.GetWhy()},
		Approval: event.Approval{ID: a.GetId(), For: a.GetFor(), Tool: a.GetTool(), Args: a.GetArgs(), Digest: a.GetDigest(),
			Keepable: permission.Keepable{Rules: a.GetRules(), Offers: offers}, Diff: a.GetDiff()},
	}
}

// first puts a decision that the person chose in front of the questions.
func (p *questionPanel) first(a *symbiov1.Approval, in *input) {
	q := QuestionOf(a)
	open := []chat.Question{q}
	for _, o := range p.open {
		if o.ID != q.ID {
			open = append(open, o)
		}
	}
	p.set(open, in)
	p.armed = true
}

// agentsOverlay returns the tree: the agents of this conversation, then the agents of all nodes.
func (m *model) agentsOverlay() *overlay {
	o := &overlay{tree: true, title: "Agents of all nodes: Enter speaks to one, x stops one", Scroll: Scroll{List: true}}
	var ids []string
	o.fill = func(columns int) (rows []string) {
		ids = nil
		t := &m.transcript
		for _, id := range t.Agents.Order {
			rows, ids = append(rows, agentText(m.look.st, t.Agents.Get(id), columns-2)), append(ids, id)
		}
		for _, b := range t.members {
			if t.Agents.Get(b.GetId()) != nil || len(b.GetAccepts()) == 0 {
				continue
			}
			state := ""
			if !b.GetAvailable() {
				state = "unavailable"
			}
			rows, ids = append(rows, agentText(m.look.st, &chat.AgentRow{ID: b.GetId(), Name: b.GetName(), Node: b.GetNodeName(), State: state},
				columns-2)), append(ids, b.GetId())
		}
		return rows
	}
	o.choose = func(i int) {
		if m.target = ids[i]; m.target == m.transcript.Agents.Root {
			m.target = ""
		}
	}
	asked := ""
	o.stop = func(i int, again bool) {
		switch id := ids[i]; {
		case id == m.transcript.Agents.Root:
			o.question = "Ctrl-C in the conversation stops the answer of this agent"
		case again && id == asked:
			m.send(chat.Input{Stop: id})
		default:
			asked, o.question = id, "x again stops "+m.transcript.nameOf(id)+" and its sub-agents"
		}
	}
	return o
}

// overlayKey handles a key of the open overlay.
func (m *model) overlayKey(k tea.KeyPressMsg) {
	o := m.overlay
	question := o.question
	o.question = ""
	if o.search.typing {
		o.searchKey(k)
		return
	}
	switch k.String() {
	case "/":
		o.search.text, o.search.typing, o.search.found = "", true, o.Top-1
	case "n":
		o.find(1)
	case "N":
		o.find(-1)
	case "esc", "q":
		m.overlay = nil
	case "x":
		if o.stop != nil && len(o.rows) > 0 {
			o.stop(o.Chosen, question != "")
		}
	case "enter":
		m.overlay = nil
		if o.List && len(o.rows) > 0 {
			o.choose(o.Chosen)
		}
	default:
		o.Key(k.String())
	}
}

// searchKey handles a key while the text to look for is typed.
func (o *overlay) searchKey(k tea.KeyPressMsg) {
	switch k.String() {
	case "esc":
		o.search.text, o.search.typing = "", false
	case "enter":
		o.search.typing = false
		o.find(1)
	case "backspace":
		o.search.text = ansi.Truncate(o.search.text, ansi.StringWidth(o.search.text)-1, "")
	default:
		o.search.text += OneLine(k.Text)
	}
}

// find goes to the next row that has the text, in any case, or with step -1 to the one before. Behind the last comes the
// first.
func (o *overlay) find(step int) {
	from := o.search.found
	if o.List {
		from = o.Chosen
	}
	for i := range o.rows {
		at := ((from+step*(i+1))%len(o.rows) + len(o.rows)) % len(o.rows)
		if o.search.text != "" && strings.Contains(strings.ToLower(ansi.Strip(o.rows[at])), strings.ToLower(o.search.text)) {
			o.search.found, o.Chosen, o.Top = at, at, at
			return
		}
	}
	o.search.found, o.question = -1, "nothing has "+cmp.Or(o.search.text, "the text: / asks for one")
}

// view returns what is open for the whole screen.
func (o *overlay) view(m *model) string {
	columns := m.look.columns
	if o.width != columns {
		o.rows, o.width = o.fill(columns), columns
	}
	page := max(1, m.height-2)
	from, to := o.Fit(len(o.rows), page)
	rows := []string{Paint(m.look.st.Bold, Cut(OneLine(cmp.Or(o.question, o.title)), columns))}
	for i := from; i < to; i++ {
		row := o.rows[i]
		if o.List && i == o.Chosen {
			row = m.look.st.Selected.Render("> ") + row
		} else if o.List {
			row = "  " + row
		} else if i == o.search.found && o.search.text != "" && !o.search.typing {
			row = m.look.st.Selected.Render(ansi.Strip(row))
		}
		rows = append(rows, Cut(row, columns))
	}
	for len(rows) < page+1 {
		rows = append(rows, "")
	}
	keys := "Esc closes  / searches"
	if o.List {
		keys = "Esc closes  Enter chooses  / searches"
	}
	if o.search.typing {
		keys = "/" + o.search.text + "_"
	}
	return strings.Join(append(rows, Paint(m.look.st.Dim,
		Cut(fmt.Sprintf("%s  ↑↓ PgUp PgDn  %d-%d of %d", keys, min(from+1, to), to, len(o.rows)), columns))), "\n")
}

// full returns all entries in full, or the edits alone.
func (t *transcript) full(s Styles, columns int, edits bool) (rows []string) {
	for _, e := range t.entries {
		if edits && e.diff == "" {
			continue
		}
		rows = append(rows, Paint(s.Bold, Cut(OneLine(e.head), columns)))
		if e.body != "" && !edits {
			rows = append(rows, Wrap(clean(e.body), columns)...)
		}
		if e.diff != "" {
			rows = append(rows, DiffRows(s, e.diff, columns, 1<<20)...)
		}
		rows = append(rows, "")
	}
	return rows
}
