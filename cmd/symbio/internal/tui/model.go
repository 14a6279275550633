package tui

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"symbio/agent/budget"
	"symbio/agent/event"
	"symbio/cmd/symbio/internal/chat"
	symbiov1 "symbio/proto/symbio/v1"
)

// config sets a model up.
type config struct {
	// dir is the working directory, and history the directory of the files of histories.
	dir, history string
	commands     []chat.Command
	// color is false with NO_COLOR. links is true if the terminal shows links. prose is false if the answer goes
	// elsewhere, through a pipe.
	color, links, prose bool
	// editor is the command of $EDITOR. It writes to out.
	editor string
	out    *os.File
	// post gives an input to the conversation without waiting; false means that it was dropped.
	post func(chat.Input) bool
}

// model is the state of the terminal. bubbletea calls its methods from one goroutine.
type model struct {
	config
	st            Styles
	width, height int
	state         chat.State
	// settings are the latest of the node; context of window tokens are filled, cost was spent.
	settings event.Settings
	// askedMode is the mode that Shift-Tab asked for and that the node has not answered yet; "" = none. The next Shift-Tab
	// goes on from it.
	askedMode       string
	context, window int
	cost            float64
	// busySince is when the current answer began.
	busySince time.Time

	input     input
	questions questionPanel
	// overlay is what is open above all; nil = nothing.
	overlay    *overlay
	transcript transcript
	// target is the agent that is spoken to; "" = the conversation's own.
	target string
	plan   []event.Step

	// queue are the finished rows that are not in the scrollback yet. printing is true while some of
	// them are on their way: they must arrive in order, and bubbletea runs commands in any order. The view
	// stays as it is meanwhile, because how many rows fit was counted with it. starting is true before the
	// first frame: nothing is printed then, see output.
	queue              []string
	printing, starting bool
	// closing is true after closeMsg: the program ends when the queue is empty.
	closing bool
	// view is the latest View, which is valid until dirty. ticking is true while a frameMsg is due.
	view           tea.View
	dirty, ticking bool
	// cursorRow is the lowest row of the cursor since the latest frameMsg, lastCursorRow the one before
	// that. See padded.
	cursorRow, lastCursorRow int
	// rows are the rows of the tallest view since the latest frameMsg, lastRows of the one before that; an overlay has all of
	// the screen. One of these views may be what is drawn now.
	rows, lastRows int
}

// The messages that the model sends to itself.
type (
	// closeMsg asks for the end.
	closeMsg struct{}
	// startedMsg says that the first frame is drawn.
	startedMsg struct{}
	// printedMsg says that rows of the queue are in the scrollback.
	printedMsg struct{}
	// frameMsg asks for a new view: while an answer is written it comes frameTime after the one before,
	// however many pieces of text came in between.
	frameMsg struct{}
)

// frameTime is the time between two views of a growing answer: 20 in a second look steady, and take
// little.
const frameTime = 50 * time.Millisecond

func newModel(c config) *model {
	m := &model{config: c, st: NewStyles(c.color), width: 80, height: 24, dirty: true}
	m.input = newInput(c)
	return m
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return nil }

// Update implements tea.Model. Text that streams in is drawn with the next frame, all else at once.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	m.dirty = true
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		if msg.Width > 0 && msg.Height > 0 { // a terminal that does not know its size says 0
			m.width, m.height = msg.Width, msg.Height
		}
		m.input.resize(m.width, m.height)
	case tea.KeyPressMsg:
		cmd = m.key(msg)
	case tea.PasteMsg:
		m.input.paste(msg.Content)
	case event.Event:
		m.dirty = msg.Type != "text" && msg.Type != "thought"
		m.event(msg)
	case frameMsg:
		m.ticking = false
		if m.lastRows, m.rows = m.rows, 0; m.overlay == nil { // below an overlay the latest view stays drawn
			m.lastCursorRow, m.cursorRow = m.cursorRow, 0
		} else if m.overlay.tree {
			m.overlay.refresh(m.send)
		}
	case startedMsg:
		m.starting = false
	case printedMsg:
		m.printing = false
	case closeMsg:
		m.closing = true
		m.overlay = nil
		m.printAll(m.transcript.flush(m))
	default:
		cmd = m.message(msg)
	}
	return m, tea.Batch(cmd, m.printQueue(), m.nextFrame())
}

// message handles what the conversation shows beside events, and the results of the input's commands.
func (m *model) message(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case chat.Note:
		style := m.st.Dim
		if msg.Bad {
			style = m.st.Bad
		}
		m.printAll(m.transcript.flush(m))
		m.printText(Paint(style, m.wrapped(clean(msg.Text), "  ")))
	case chat.Text:
		m.printAll(m.transcript.flush(m))
		m.printText(m.wrapped(clean(string(msg)), ""))
	case chat.Echo:
		m.echo(string(msg))
	case chat.State:
		if msg.Busy && !m.state.Busy {
			m.busySince = time.Now()
		}
		m.state = msg
	case chat.Questions:
		m.questions.set(msg, &m.input)
	case chat.Skills:
		m.input.skills = msg
	case chat.Prompts:
		m.input.commands = append(slices.Clip(m.commands), msg...)
	case chat.Draft:
		m.input.clear()
		m.input.area.SetValue(clean(string(msg)))
	case chat.NewAgent:
		m.printAll(m.transcript.flush(m))
		m.transcript, m.plan = transcript{}, nil
	default:
		if o := m.overlayOf(msg); o != nil {
			m.overlay = o
			return nil
		}
		return m.input.message(msg)
	}
	return nil
}

// send gives an input to the conversation.
func (m *model) send(in chat.Input) {
	if !m.post(in) {
		m.printText(Paint(m.st.Bad, "  dropped: the node does not keep up"))
	}
}

// key handles a key: of the overlay, of the waiting question, of all times, of the input.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	name := k.String()
	switch name {
	case "ctrl+z":
		return tea.Suspend
	case "ctrl+c":
		return m.interrupt()
	case "ctrl+o", "ctrl+t":
		if m.overlay != nil {
			m.overlay = nil
		} else if name == "ctrl+o" {
			m.overlay = m.overlayOf(chat.OpenTranscript{})
		} else {
			m.overlay = m.overlayOf(chat.OpenAgents{})
			m.overlay.refresh(m.send)
		}
		return nil
	}
	if m.overlay != nil {
		m.overlayKey(k)
		return nil
	}
	if m.questions.key(k, &m.input, m.send) || m.stateKey(name) {
		return nil
	}
	text, pictures, submitted, cmd := m.input.key(k)
	if submitted {
		m.send(chat.Input{Text: text, Pictures: pictures, Steer: m.steerTarget(text)})
	}
	return cmd
}

// stateKey handles the keys that are about the conversation and not about the text. It returns false for
// others.
func (m *model) stateKey(name string) bool {
	switch name {
	case "ctrl+d":
		if m.input.area.Length() == 0 {
			m.send(chat.Input{End: true})
			return true
		}
	case "shift+tab":
		modes := []string{"ask", "edits", "plan"}
		now := cmp.Or(m.askedMode, m.settings.Mode, modes[0])
		m.askedMode = modes[(slices.Index(modes, now)+1)%len(modes)]
		m.send(chat.Input{Settings: &symbiov1.ChangeSettings{Mode: m.askedMode}})
		return true
	case "esc":
		if m.target != "" && len(m.input.popup) == 0 {
			m.target = ""
			return true
		}
	}
	return false
}

// steerTarget returns the agent that a line is said to. Commands are the conversation's.
func (m *model) steerTarget(text string) string {
	if strings.HasPrefix(text, "/") || strings.TrimSpace(text) == "" {
		return ""
	}
	return m.target
}

// interrupt handles Ctrl-C: it closes what is open, else clears the line of an idle conversation, else
// asks the conversation to stop.
func (m *model) interrupt() tea.Cmd {
	switch {
	case m.overlay != nil:
		m.overlay = nil
	case len(m.input.popup) > 0:
		m.input.popup = nil
	case !m.state.Busy && m.input.area.Length() > 0:
		m.input.clear()
	default:
		m.send(chat.Input{Interrupt: true})
	}
	return nil
}

// event handles an event of the node.
func (m *model) event(e event.Event) {
	switch f := e.Part.(type) {
	case event.Settings:
		if e.Why != "" {
			m.printText(Paint(m.st.Bad, m.wrapped("not changed: "+clean(e.Why), "  ")))
		}
		m.settings, m.window = f, cmp.Or(f.Window, m.window)
		if e.Why != "" || f.Mode == m.askedMode {
			m.askedMode = ""
		}
	case event.Plan:
		m.plan = f.Steps
	case event.Turn:
		if f.Window > 0 && e.Agent == m.transcript.agents.Root {
			m.context, m.window = f.Context, f.Window
		}
	case event.End:
		if f.Spent != nil && e.Type == event.TypeResult {
			m.cost += f.Spent.Cost
		}
	}
	m.printAll(m.transcript.event(m, e))
}

// nextFrame asks for the next frame while something moves by itself.
func (m *model) nextFrame() tea.Cmd {
	moves := m.state.Busy || m.state.Gone || m.closing || m.overlay == nil && (m.lastCursorRow > 0 || m.cursorRow > 0 || len(m.queue) > 0)
	if m.ticking || !moves && (m.overlay == nil || !m.overlay.tree) {
		return nil
	}
	m.ticking = true
	return tea.Tick(frameTime, func(time.Time) tea.Msg { return frameMsg{} })
}

// printText puts finished text into the queue; the lines must fit the terminal.
func (m *model) printText(text string) { m.queue = append(m.queue, strings.Split(text, "\n")...) }

func (m *model) printAll(texts []string) {
	for _, text := range texts {
		m.printText(text)
	}
}

// printQueue prints rows of the queue above the live ones, as many as fit the screen beside these:
// bubbletea scrolls the screen by the whole of a print, and counts with the rows that it drew last, which may be an older
// view (bubbletea issue 1736). Nothing is printed while an overlay is open or may still be drawn.
func (m *model) printQueue() tea.Cmd {
	if m.printing || m.starting || m.overlay != nil {
		return nil
	}
	if len(m.queue) == 0 {
		if m.closing && max(m.cursorRow, m.lastCursorRow) == 0 {
			return tea.Quit
		}
		return nil
	}
	m.View() // it may be drawn before the print
	tallest := max(m.rows, m.lastRows)
	if tallest >= m.height && lines(m.view.Content) < m.height {
		return nil // the next frameMsg prints
	}
	m.printing = true
	n := min(len(m.queue), max(1, m.height-tallest-1))
	text := strings.Join(m.queue[:n], "\n")
	m.queue = m.queue[n:]
	if text == "" {
		text = " " // bubbletea prints no empty text
	}
	return tea.Sequence(tea.Println(text), func() tea.Msg { return printedMsg{} })
}

// maxEchoRows is how many lines of a message are shown. Of a longer one, which was pasted, the first and the last are.
const maxEchoRows = 12

// echo shows a message of the person.
func (m *model) echo(text string) {
	m.printAll(m.transcript.flush(m))
	m.transcript.add(entry{head: "you", body: text})
	rows := strings.Split(clean(text), "\n")
	if more := len(rows) - maxEchoRows; more > 0 {
		rows = append(rows[:1:1], fmt.Sprintf("[%d lines; Ctrl-O shows all]", len(rows)), rows[len(rows)-1])
	}
	m.printText("\n" + Paint(m.st.Bold, m.wrapped("> "+strings.Join(rows, "\n"), "")))
}

// wrapped wraps text to the terminal behind an indent.
func (m *model) wrapped(text, indent string) string {
	rows := Wrap(text, m.width-1-len(indent))
	return indent + strings.Join(rows, "\n"+indent)
}

// View implements tea.Model.
func (m *model) View() tea.View {
	if !m.dirty || m.printing {
		return m.view
	}
	m.dirty = false
	switch {
	case m.overlay != nil:
		m.view = tea.NewView(m.overlay.view(m))
		m.view.AltScreen = true
	case m.closing && len(m.queue) == 0:
		m.view = m.padded(nil, tea.NewCursor(0, 0))
	default:
		m.view = m.liveView()
	}
	m.rows = max(m.rows, lines(m.view.Content))
	if m.view.AltScreen {
		m.rows = m.height
	}
	return m.view
}

// padded returns the view of rows. It adds empty rows when there were more before and the cursor stood
// in one of them: bubbletea loses its place when the cursor is below the last row of a new view. After
// frameTime the cursor is known to be where the view has it, and the rows go.
func (m *model) padded(rows []string, cursor *tea.Cursor) tea.View {
	for len(rows) <= max(m.cursorRow, m.lastCursorRow) && max(m.cursorRow, m.lastCursorRow) > 0 {
		rows = append(rows, "")
	}
	v := tea.NewView(strings.Join(rows, "\n"))
	if v.Cursor = cursor; cursor != nil {
		m.cursorRow = max(m.cursorRow, cursor.Y)
	}
	return v
}

// liveView returns the rows below the scrollback. The input and the status are always there; the parts
// above are cut at their tops when the terminal is too low for all.
func (m *model) liveView() tea.View {
	columns := m.width - 1
	area, cursor := m.input.view()
	below := append(m.input.popupView(m.st, columns, max(1, min(8, m.height-6))), strings.Split(area, "\n")...)
	status := m.status(columns)
	room := max(0, m.height-1-len(below)-1)
	question := m.questions.view(m, columns, room)
	room -= len(question)
	above := append(m.transcript.live(m, columns, room), m.planView(columns)...)
	above = above[max(0, len(above)-max(0, room)):]
	rows := append(append(append(above, question...), below...), status)
	if cursor != nil {
		cursor.Y += len(rows) - 1 - lines(area)
	}
	return m.padded(rows, cursor)
}

func lines(text string) int { return strings.Count(text, "\n") + 1 }

// maxPlanRows bounds the rows of the plan: the steps before the running one go first.
const maxPlanRows = 8

// planView returns the steps of the plan.
func (m *model) planView(columns int) (rows []string) {
	first := 0
	for i, s := range m.plan {
		style, mark := m.st.Dim, "☐ "
		switch s.State {
		case "done":
			mark = "☑ "
		case "running":
			style, mark = m.st.Bold, "▶ "
			first = max(0, i-2)
		}
		rows = append(rows, Paint(style, Cut("  "+mark+clean(strings.ReplaceAll(s.Text, "\n", " ")), columns)))
	}
	if len(rows) > maxPlanRows {
		first = min(first, len(rows)-maxPlanRows)
		rows = rows[first : first+maxPlanRows]
	}
	return rows
}

// status returns the last row: what is going on, and then what the conversation is like.
func (m *model) status(columns int) string {
	var parts []string
	add := func(text string) {
		if text != "" {
			parts = append(parts, clean(text))
		}
	}
	add(m.activity(time.Now()))
	if mode := m.settings.Mode; mode != "" && mode != "ask" {
		add("mode " + mode)
	}
	if m.window > 0 {
		add(fmt.Sprintf("%d%% of %s", min(100, 100*m.context/m.window), budget.Rounded(int64(m.window))))
	}
	if m.cost > 0 {
		add(fmt.Sprintf("$%.2f", m.cost))
	}
	add(strings.TrimSpace(m.settings.Model + " " + m.settings.Effort))
	if level := m.settings.Sandbox; level == "off" {
		add("no sandbox")
	} else if level != "" {
		add("sandbox " + level)
	}
	add(m.state.Node)
	return Paint(m.st.Dim, Cut("  "+strings.Join(parts, " · "), columns))
}

// activity returns what the conversation is doing now.
func (m *model) activity(now time.Time) string {
	switch {
	case m.state.Closing:
		return "leaving"
	case m.state.Gone:
		return "waiting for node " + m.state.Node + " (Ctrl-C leaves)"
	case m.state.Stopping:
		return "stopping (Ctrl-C again to leave)"
	case len(m.questions.open) > 0:
		return "waiting for your answer (Ctrl-C stops)"
	case m.target != "":
		return "to " + m.transcript.nameOf(m.target) + " (Esc: back)"
	case m.state.Busy:
		return m.transcript.activity(now, m.busySince) + " (type to steer, Ctrl-C stops)"
	case m.state.Unsent:
		return "Enter sends what the agent was not told"
	}
	return "/help"
}
