package topcmd

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
	"google.golang.org/grpc"

	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/cmd/symbio/internal/tui"
	"symbio/internal/actor/backoff"
	"symbio/internal/agent/node/fleet"
	symbiov1 "symbio/proto/symbio/v1"
)

// model is the state of the screen. bubbletea calls its methods from one goroutine.
type model struct {
	look  look
	links bool // the terminal shows links
	link  link

	*list
	decisions decisions
	panels    [panelCount]panel
	focus     int
	// page is what is open above the lists, and prompt the line that the person types; nil = nothing.
	page   *page
	prompt *prompt
	note   note
	// err is why the program ends.
	err error
}

// link is the connection to the node.
type link struct {
	// ctx ends the calls of the node; it ends with the program.
	ctx    context.Context
	client symbiov1.ControlClient
	stream receiver
	// dial is (*command.Env).DialNode, and conn the connection that it made; nil for the command's.
	dial func(name string) (symbiov1.ControlClient, *grpc.ClientConn, error)
	conn *grpc.ClientConn
	// gone is true while the node cannot be reached.
	gone bool
}

// decisions are the approvals that wait on all nodes. asking is true while they are asked for, stale if they have changed
// meanwhile.
type decisions struct {
	*symbiov1.ApprovalsReply
	asking, stale bool
}

// note is a remark in the last rows until the next key; bad is true for an error.
type note struct {
	text string
	bad  bool
}

// say shows a remark.
func (n *note) say(text string) { *n = note{text: text} }

// prompt is a line of text that is typed, and what takes it.
type prompt struct {
	textinput.Model
	done func(text string) tea.Cmd
}

// The messages to the model beside bubbletea's: a tick of a second, and the work of a command with its result.
type (
	tickMsg time.Time
	after   func() tea.Cmd
)

// show shows the community on the terminal until the person leaves or ctx ends.
func show(ctx context.Context, env *command.Env, in *os.File, client symbiov1.ControlClient, stream receiver, l *list) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the calls of the node that still run
	m := newModel(ctx, client, stream, l, tui.NewStyles(env.Getenv("NO_COLOR") == ""))
	m.link.dial, m.links = env.Nodes().DialNode, tui.ShowsLinks(env.Getenv)
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(env.Out), tea.WithoutSignalHandler()).Run()
	if ctx.Err() != nil {
		return nil // a signal
	}
	return cmp.Or(m.err, err)
}

func newModel(ctx context.Context, client symbiov1.ControlClient, stream receiver, l *list, st tui.Styles) *model {
	m := &model{look: look{st, 80, 24, time.Now()}, link: link{ctx: ctx, client: client, stream: stream}, list: l, focus: agentsPanel}
	for i := range m.panels {
		m.panels[i].List = true
	}
	return m
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return tea.Batch(m.next(), tick(), m.askDecisions()) }

func tick() tea.Cmd { return tea.Tick(time.Second, func(t time.Time) tea.Msg { return tickMsg(t) }) }

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.look.width, m.look.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		cmd = m.key(msg)
	case tea.PasteMsg:
		if m.prompt != nil {
			m.prompt.Model, cmd = m.prompt.Update(msg)
		}
	case tickMsg:
		m.look.now, cmd = time.Time(msg), tick()
	case after:
		cmd = msg()
	}
	m.fill()
	return m, cmd
}

// next waits for the next change.
func (m *model) next() tea.Cmd {
	stream := m.link.stream
	return func() tea.Msg {
		change, err := stream.Recv()
		return after(func() tea.Cmd { return m.change(change, err) })
	}
}

// change takes a change up, or the end of the stream: a node that is gone comes back.
func (m *model) change(c *symbiov1.FleetChange, err error) tea.Cmd {
	if err != nil {
		if m.link.conn != nil {
			m.link.conn.Close()
		}
		if !errors.Is(err, io.EOF) && !command.IsUnavailable(err) {
			m.err = err
			return tea.Quit
		}
		m.link.gone = true
		return m.redial(m.Self.GetName())
	}
	waiting := m.waitingCalls()
	m.Apply(c)
	cmds := []tea.Cmd{m.next()}
	// Nodes that do not let this one see their decisions record each request: there is one when something has changed.
	if !slices.Equal(m.waitingCalls(), waiting) {
		cmds = append(cmds, m.askDecisions())
	}
	if m.page != nil && m.page.changed != nil {
		cmds = append(cmds, m.page.changed(c))
	}
	return tea.Batch(cmds...)
}

// The pauses between two attempts to reach a node that is gone.
const (
	firstRedial = 100 * time.Millisecond
	maxRedial   = 2 * time.Second
)

// redial connects to the node of that name again, until ctx ends.
func (m *model) redial(name string) tea.Cmd {
	return func() tea.Msg {
		for failures := 1; ; failures++ {
			select {
			case <-time.After(backoff.Delay(failures, firstRedial, maxRedial)):
			case <-m.link.ctx.Done():
				return nil
			}
			client, conn, err := m.link.dial(name)
			if err != nil {
				continue
			}
			stream, first, err := watch(m.link.ctx, client, false)
			if err != nil {
				conn.Close()
				continue
			}
			return after(func() tea.Cmd {
				m.link.client, m.link.conn, m.link.stream, m.link.gone = client, conn, stream, false
				m.Overview = fleet.NewOverview()
				m.note.say("node " + name + " is back")
				return m.change(first, nil)
			})
		}
	}
}

// askDecisions asks for the decisions that wait, once at a time.
func (m *model) askDecisions() tea.Cmd {
	if m.decisions.stale = m.decisions.asking; m.decisions.asking || m.link.gone {
		return nil
	}
	m.decisions.asking = true
	return m.link.call(func(ctx context.Context, c symbiov1.ControlClient) func() tea.Cmd {
		reply, err := c.Approvals(ctx, &symbiov1.ApprovalsRequest{})
		return func() tea.Cmd {
			// After an error, such as the end of the node, those that were known stay.
			if m.decisions.asking = false; err == nil {
				m.decisions.ApprovalsReply = reply
			}
			if p := m.page; p != nil && p.decision != "" && m.decisions.find(p.decision) == nil {
				m.page = nil
				m.note.say("answered elsewhere, or its time is over")
			}
			if m.decisions.stale {
				return m.askDecisions()
			}
			return nil
		}
	})
}

// find returns the first decision with that id, or of the agent with that id; nil if there is none.
func (d decisions) find(id string) *symbiov1.Approval {
	all := d.GetApprovals()
	if i := slices.IndexFunc(all, func(a *symbiov1.Approval) bool { return a.GetId() == id || a.GetAgent() == id }); i >= 0 {
		return all[i]
	}
	return nil
}

// callTimeout bounds a call of the node, also one that waits for another node or for the end of a turn.
const callTimeout = time.Minute

// call calls the node in the background. The model calls what do returns.
func (l link) call(do func(context.Context, symbiov1.ControlClient) func() tea.Cmd) tea.Cmd {
	client := l.client
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(l.ctx, callTimeout)
		defer cancel()
		return after(do(ctx, client))
	}
}

// act calls the node for the person and shows what came of it: the text that do returns, or the error.
func (m *model) act(do func(context.Context, symbiov1.ControlClient) (string, error)) tea.Cmd {
	return m.link.call(func(ctx context.Context, c symbiov1.ControlClient) func() tea.Cmd {
		text, err := do(ctx, c)
		return func() tea.Cmd {
			if m.note.say(text); err != nil {
				m.note = note{command.ErrorText(m.link.ctx, err), true}
			}
			return m.askDecisions()
		}
	})
}

// maxPrompt bounds a typed line, in characters. Longer instructions belong into a conversation: symbio chat.
const maxPrompt = 4000

// ask opens a prompt. done gets the text without the spaces around it.
func (m *model) ask(label, text string, done func(string) tea.Cmd) {
	m.prompt = &prompt{textinput.New(), done}
	m.prompt.Prompt, m.prompt.CharLimit = terminal.Printable(label), maxPrompt
	m.prompt.SetStyles(textinput.Styles{})
	m.prompt.SetVirtualCursor(false)
	m.prompt.SetValue(text)
	m.prompt.Focus()
}

// promptKey handles a key of the line that is typed.
func (m *model) promptKey(k tea.KeyPressMsg) (cmd tea.Cmd) {
	p := m.prompt
	switch k.String() {
	case "esc":
		m.prompt = nil
	case "enter":
		m.prompt = nil
		return p.done(strings.TrimSpace(p.Value()))
	default:
		p.Model, cmd = p.Update(k)
	}
	return cmd
}
