package tui

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"golang.org/x/sync/errgroup"

	"symbio/cmd/symbio/internal/chat"
	"symbio/cmd/symbio/internal/command"
)

// program is a model that runs on a terminal. It implements chat.Terminal.
type program struct {
	tea    *tea.Program
	inputs chan chat.Input
	group  errgroup.Group
}

// maxInputs bounds the inputs that the conversation has not taken. A person types less in the time
// that a call of the node takes; what is more is dropped, and the person is told.
const maxInputs = 256

// framesPerSecond is how often changes are drawn. A key waits for a frame at most: 8 ms, where the usual 60 frames
// take 17 ms, which people who type fast feel.
const framesPerSecond = 120

// Open opens the terminal that env reads from and writes to. It is a chat.TerminalOpener.
func Open(_ context.Context, env *command.Env, commands []chat.Command) (chat.Terminal, error) {
	in, _ := env.In.(*os.File)
	out, _ := env.Out.(*os.File)
	if !env.OutIsTerminal {
		out, _ = env.Err.(*os.File)
	}
	if in == nil || out == nil {
		return nil, nil
	}
	dir, err := env.Workspace()
	if err != nil {
		return nil, err
	}
	p := &program{inputs: make(chan chat.Input, maxInputs)}
	m := newModel(config{
		dir: dir, history: filepath.Join(string(env.State()), "history"), commands: commands,
		color: env.Getenv("NO_COLOR") == "", links: ShowsLinks(env.Getenv), prose: env.OutIsTerminal, editor: env.Getenv("EDITOR"), out: out,
		post: func(in chat.Input) bool {
			select {
			case p.inputs <- in:
				return true
			default:
				return false
			}
		},
	})
	m.printer.starting = true
	drawn := func() { p.group.Go(func() error { p.tea.Send(startedMsg{}); return nil }) }
	p.tea = tea.NewProgram(m, tea.WithInput(in), tea.WithOutput(&output{File: out, drawn: drawn}), tea.WithoutSignalHandler(), tea.WithFPS(framesPerSecond))
	p.group.Go(func() error {
		defer close(p.inputs)
		_, err := p.tea.Run()
		return err
	})
	return p, nil
}

// output is the terminal that bubbletea draws to. It calls drawn once, after the first frame. Text that bubbletea prints before
// that frame scrolls the whole screen away, because it takes the rows of the screen for the rows of the frame
// (bubbletea issue 1740). drawn must not wait for the program, which may wait for Write.
type output struct {
	*os.File
	drawn func()
	once  sync.Once
}

// Write writes a part of a frame. The first frame is the first part that shows the cursor.
func (o *output) Write(part []byte) (int, error) {
	n, err := o.File.Write(part)
	if bytes.Contains(part, []byte(ansi.SetModeTextCursorEnable)) {
		o.once.Do(o.drawn)
	}
	return n, err
}

// Show draws a message of the conversation. It blocks until the model has taken it.
func (p *program) Show(message any) { p.tea.Send(message) }

// Inputs has what the person does.
func (p *program) Inputs() <-chan chat.Input { return p.inputs }

// Close prints what is left, restores the terminal, and returns why drawing failed, if it did.
func (p *program) Close() error {
	p.tea.Send(closeMsg{})
	return p.group.Wait()
}
