package tui

import (
	"os"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

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
	cfg    config
	look   look
	height int
	status status

	input     input
	questions questionPanel
	// overlay is what is open above all; nil = nothing.
	overlay    *overlay
	transcript transcript
	// target is the agent that is spoken to; "" = the conversation's own.
	target string
	plan   []event.Step

	printer printer
	frame   frame
	// closing is true after closeMsg: the program ends when the queue is empty.
	closing bool
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
	return &model{cfg: c, look: look{NewStyles(c.color), 79, c.links, c.prose}, height: 24, frame: frame{dirty: true}, input: newInput(c)}
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return nil }

// Update implements tea.Model. Text that streams in is drawn with the next frame, all else at once.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	m.frame.dirty = true
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		if msg.Width > 0 && msg.Height > 0 { // a terminal that does not know its size says 0
			m.look.columns, m.height = msg.Width-1, msg.Height
		}
		m.input.resize(m.look.columns+1, m.height)
	case tea.KeyPressMsg:
		cmd = m.key(msg)
	case tea.PasteMsg:
		m.input.paste(msg.Content)
	case event.Event:
		m.frame.dirty = msg.Type != "text" && msg.Type != "thought"
		m.event(msg)
	case frameMsg:
		m.frame.ticking = false
		if m.frame.lastRows, m.frame.rows = m.frame.rows, 0; m.overlay == nil { // below an overlay the latest view stays drawn
			m.frame.lastCursorRow, m.frame.cursorRow = m.frame.cursorRow, 0
		} else if m.overlay.tree {
			m.overlay.refresh(m.send)
		}
	case startedMsg:
		m.printer.starting = false
	case printedMsg:
		m.printer.printing = false
	case closeMsg:
		m.closing = true
		m.overlay = nil
		m.printer.print(m.transcript.flush(m.look)...)
	default:
		cmd = m.message(msg)
	}
	return m, tea.Batch(cmd, m.printQueue(), m.nextFrame())
}

// message handles what the conversation shows beside events, and the results of the input's commands.
func (m *model) message(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case chat.Note:
		style := m.look.st.Dim
		if msg.Bad {
			style = m.look.st.Bad
		}
		m.printer.print(m.transcript.flush(m.look)...)
		m.printer.print(Paint(style, m.look.wrapped(clean(msg.Text), "  ")))
	case chat.Text:
		m.printer.print(m.transcript.flush(m.look)...)
		m.printer.print(m.look.wrapped(clean(string(msg)), ""))
	case chat.Echo:
		m.printer.print(m.transcript.echo(m.look, string(msg))...)
	case chat.State:
		m.status.set(msg)
	case chat.Questions:
		m.questions.set(msg, &m.input)
	case chat.Skills:
		m.input.skills = msg
	case chat.Prompts:
		m.input.cfg.commands = append(slices.Clip(m.cfg.commands), msg...)
	case chat.Draft:
		m.input.clear()
		m.input.area.SetValue(clean(string(msg)))
	case chat.NewAgent:
		m.printer.print(m.transcript.flush(m.look)...)
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
	if !m.cfg.post(in) {
		m.printer.print(Paint(m.look.st.Bad, "  dropped: the node does not keep up"))
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
		m.send(chat.Input{Settings: &symbiov1.ChangeSettings{Mode: m.status.nextMode()}})
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
	case !m.status.state.Busy && m.input.area.Length() > 0:
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
			m.printer.print(Paint(m.look.st.Bad, m.look.wrapped("not changed: "+clean(e.Why), "  ")))
		}
	case event.Plan:
		m.plan = f.Steps
	}
	m.status.event(e, m.transcript.Agents.Root)
	m.printer.print(m.transcript.event(m.look, e)...)
}

// nextFrame asks for the next frame while something moves by itself.
func (m *model) nextFrame() tea.Cmd {
	moves := m.status.state.Busy || m.status.state.Gone || m.closing || m.overlay == nil && (m.frame.lowest() > 0 || len(m.printer.queue) > 0)
	if m.frame.ticking || !moves && (m.overlay == nil || !m.overlay.tree) {
		return nil
	}
	m.frame.ticking = true
	return tea.Tick(frameTime, func(time.Time) tea.Msg { return frameMsg{} })
}

// printQueue prints rows of the queue above the live ones, as many as fit the screen beside these:
// bubbletea scrolls the screen by the whole of a print, and counts with the rows that it drew last, which may be an older
// view (bubbletea issue 1736). Nothing is printed while an overlay is open or may still be drawn.
func (m *model) printQueue() tea.Cmd {
	if m.printer.printing || m.printer.starting || m.overlay != nil {
		return nil
	}
	if len(m.printer.queue) == 0 {
		if m.closing && m.frame.lowest() == 0 {
			return tea.Quit
		}
		return nil
	}
	m.View() // it may be drawn before the print
	tallest := max(m.frame.rows, m.frame.lastRows)
	if tallest >= m.height && lines(m.frame.view.Content) < m.height {
		return nil // the next frameMsg prints
	}
	return m.printer.next(max(1, m.height-tallest-1))
}

// View implements tea.Model.
func (m *model) View() tea.View {
	if !m.frame.dirty || m.printer.printing {
		return m.frame.view
	}
	m.frame.dirty = false
	switch {
	case m.overlay != nil:
		m.frame.view = tea.NewView(m.overlay.view(m))
		m.frame.view.AltScreen = true
	case m.closing && len(m.printer.queue) == 0:
		m.frame.view = m.frame.padded(nil, tea.NewCursor(0, 0))
	default:
		m.frame.view = m.liveView()
	}
	m.frame.rows = max(m.frame.rows, lines(m.frame.view.Content))
	if m.frame.view.AltScreen {
		m.frame.rows = m.height
	}
	return m.frame.view
}

// liveView returns the rows below the scrollback. The input and the status are always there; the parts
// above are cut at their tops when the terminal is too low for all.
func (m *model) liveView() tea.View {
	columns := m.look.columns
	area, cursor := m.input.view()
	below := append(m.input.popupView(m.look.st, columns, max(1, min(8, m.height-6))), strings.Split(area, "\n")...)
	status := Paint(m.look.st.Dim, Cut("  "+m.status.text(m.activity(time.Now())), columns))
	room := max(0, m.height-1-len(below)-1)
	question := m.questions.view(m, columns, room)
	room -= len(question)
	above := append(m.transcript.live(m.look.st, columns, room), m.planView(columns)...)
	above = above[max(0, len(above)-max(0, room)):]
	rows := append(append(append(above, question...), below...), status)
	if cursor != nil {
		cursor.Y += len(rows) - 1 - lines(area)
	}
	return m.frame.padded(rows, cursor)
}

func lines(text string) int { return strings.Count(text, "\n") + 1 }

// maxPlanRows bounds the rows of the plan: the steps before the running one go first.
const maxPlanRows = 8

// planView returns the steps of the plan.
func (m *model) planView(columns int) (rows []string) {
	first := 0
	for i, s := range m.plan {
		style, mark := m.look.st.Dim, "☐ "
		switch s.State {
		case "done":
			mark = "☑ "
		case "running":
			style, mark = m.look.st.Bold, "▶ "
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

// activity returns what the conversation is doing now.
func (m *model) activity(now time.Time) string {
	switch {
	case m.status.state.Closing:
		return "leaving"
	case m.status.state.Gone:
		return "waiting for node " + m.status.state.Node + " (Ctrl-C leaves)"
	case m.status.state.Stopping:
		return "stopping (Ctrl-C again to leave)"
	case len(m.questions.open) > 0:
		return "waiting for your answer (Ctrl-C stops)"
	case m.target != "":
		return "to " + m.transcript.nameOf(m.target) + " (Esc: back)"
	case m.status.state.Busy:
		return m.transcript.activity(now, m.status.busySince) + " (type to steer, Ctrl-C stops)"
	case m.status.state.Unsent:
		return "Enter sends what the agent was not told"
	}
	return "/help"
}
