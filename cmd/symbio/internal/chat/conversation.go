package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"symbio/agent/event"
	"symbio/agent/node/control"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	symbiov1 "symbio/proto/symbio/v1"
)

// Options says how a conversation is held.
type Options struct {
	// Keep: the conversation goes on when all messages are answered.
	Keep bool
	// Greeting is shown first, to a person.
	Greeting string
}

// conversation is a conversation at this terminal, or through pipes. One goroutine has all of it; others only bring events,
// keys and lines.
type conversation struct {
	env       *command.Env
	options   Options
	signals   <-chan os.Signal // see Interrupts
	view      *view
	stream    symbiov1.Control_ConverseClient
	questions questions

	editor     *terminal.Editor // nil = whole lines are read
	input      *command.Input   // them
	foreground bool             // see readsAhead
	partial    []string         // lines that ended in a backslash
	draft      string           // what was being typed when a question came
	inputEnded      bool             // nothing more is typed
	prompted      bool             // the prompt for a line is there

	busy      int       // messages that are not answered
	busySince     time.Time // when the first of them began
	unsent      []string  // steering that was given back
	pendingSteering   []string  // what was said to turns in flight, until that is told of
	interrupted   bool      // Ctrl-C, and nothing since
	closing   bool      // all is said
	deadline  *time.Timer
	turnErr    error // of an answer that is none
	agentErr error // why nothing more can be said
}

// readsAhead says whether what is typed may be read before it is asked for: a person is there, and the shell has not put the
// command into the background.
func readsAhead(env *command.Env) bool {
	in, ok := env.In.(*os.File)
	return env.InIsTerminal && !env.JSON && (!ok || terminal.InForeground(in))
}

// isInteractive reports whether a person types at a terminal and reads the output there.
func (t *conversation) isInteractive() bool { return t.env.InIsTerminal && !t.env.JSON }

// closeTimeout is how long a conversation may take to end when it was told to end now: the node gives the same to
// agents that are terminated.
const closeTimeout = 5 * time.Second

// errInterrupted says that a person broke it off.
var errInterrupted = errors.New("interrupted")

// Converse gives an agent its first message, if there is one, and shows what happens until the conversation is over.
func Converse(ctx context.Context, env *command.Env, client symbiov1.ControlClient, req *symbiov1.RunRequest, o Options, signals <-chan os.Signal) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	var g errgroup.Group
	restore := func() error { return nil }
	defer func() {
		cancel()
		err = errors.Join(err, g.Wait(), restore()) // in this order: what reads keys waits for them in a raw terminal only
	}()
	stream, err := client.Converse(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Open{Open: req}}); err != nil {
		return streamError(stream, err)
	}
	t := &conversation{env: env, options: o, signals: signals, view: newView(env), stream: stream, input: env.Input(), foreground: readsAhead(env), deadline: time.NewTimer(0)}
	t.deadline.Stop()
	t.questions = questions{client: client, show: t.showQuestion, notify: t.view.note}
	if req.GetTask() != "" {
		t.busy, t.busySince = 1, time.Now()
	}
	events := make(chan event.Event)
	over := make(chan error, 1)
	g.Go(func() error {
		over <- receive(ctx, stream, events)
		return nil
	})
	keys, restoreKeys, err := t.keyboard(ctx, &g)
	if err != nil {
		return err
	}
	restore = restoreKeys
	if o.Greeting != "" && t.isInteractive() {
		t.view.note(o.Greeting)
	}
	return t.run(ctx, events, over, keys)
}

// streamError is why a stream takes nothing more.
func streamError(stream symbiov1.Control_ConverseClient, err error) error {
	if errors.Is(err, io.EOF) {
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
	return err
}

// receive hands on events until the stream ends.
func receive(ctx context.Context, stream symbiov1.Control_ConverseClient, events chan<- event.Event) error {
	for {
		e, err := control.Receive(stream.Recv)
		if err != nil {
			return err
		}
		select {
		case events <- e:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// run is the life of a conversation.
func (t *conversation) run(ctx context.Context, events <-chan event.Event, over <-chan error, keys <-chan []rune) error {
	clock := time.NewTicker(time.Second)
	defer clock.Stop()
	t.closeWhenDone()
	for {
		t.draw()
		var err error
		select {
		case e := <-events:
			err = t.event(ctx, e)
		case end := <-over:
			return t.streamEnd(end)
		case pressed, ok := <-keys:
			err = t.keys(ctx, pressed, ok)
		case line, ok := <-t.lines():
			err = t.line(ctx, line, ok)
		case s := <-t.signals:
			err = t.signal(s)
		case <-t.deadline.C:
			err = errInterrupted
		case <-clock.C:
		}
		if err == nil {
			err = t.view.err()
		}
		if err != nil {
			t.view.close()
			return err
		}
	}
}

// streamEnd is what became of a conversation whose stream has ended.
func (t *conversation) streamEnd(err error) error {
	t.view.close()
	switch {
	case !errors.Is(err, io.EOF):
		return err
	case t.agentErr != nil:
		return t.agentErr
	case t.busy > 0:
		return errors.New("the node ended the task without a result")
	}
	return t.turnErr
}

// event takes one event.
func (t *conversation) event(ctx context.Context, e event.Event) error {
	switch {
	case e.Type == "result":
		return t.result(e)
	case t.closing && t.busy == 0 && e.Type != "receipt":
		return nil // the result is the last event
	case t.isInteractive() && (e.Type == "receipt" || e.Type == "steered"):
		return t.receipt(e)
	case t.isInteractive() && e.Type == "transcript":
		return t.view.printTranscript(e)
	case (e.Type == "approval" || e.Type == "answered") && t.isInteractive():
		return t.question(ctx, e)
	}
	return t.view.event(e)
}

// result ends a turn.
func (t *conversation) result(e event.Event) error {
	r, err := t.view.result(e)
	if err != nil {
		return err
	}
	t.busy, t.busySince = max(0, t.busy-1), time.Now()
	switch {
	case r.Status == "done":
	case r.Over:
		t.agentErr = fmt.Errorf("the agent is gone: %s", terminal.Printable(r.Error))
	case t.options.Keep && t.isInteractive():
		t.view.problem(problem(r))
	default:
		t.turnErr = errors.New(problem(r))
	}
	t.view.gap()
	t.interrupted = false
	t.closeWhenDone()
	return nil
}

// closeWhenDone says that nothing more follows, when that is so.
func (t *conversation) closeWhenDone() {
	if t.busy == 0 && (!t.options.Keep || t.inputEnded) || t.agentErr != nil {
		t.closeSend()
	}
}

func (t *conversation) closeSend() {
	if !t.closing {
		t.closing = true
		_ = t.stream.CloseSend() // it says so itself when it has ended
	}
}

// signal takes what the system sends: Ctrl-C where no keys are read, and the wish that this ends. A script that is
// interrupted ends, too.
func (t *conversation) signal(s os.Signal) error {
	if s == os.Interrupt && (t.isInteractive() || !t.options.Keep) {
		return t.stop()
	}
	if t.interrupted && t.closing {
		return errInterrupted
	}
	if !t.isInteractive() {
		t.turnErr = errInterrupted
	}
	return t.abort()
}

// abort breaks off what is going on and leaves.
func (t *conversation) abort() error {
	t.deadline.Reset(closeTimeout)
	t.interrupted = true
	if t.busy > 0 && !t.closing {
		if err := t.interrupt(); err != nil {
			return err
		}
	}
	t.closeSend()
	return nil
}

// stop is Ctrl-C: it breaks an answer off; the second one leaves at once.
func (t *conversation) stop() error {
	switch {
	case t.interrupted:
		if t.busy == 0 && t.options.Keep && !t.closing {
			t.closeSend()
			return nil
		}
		return errInterrupted
	case t.busy == 0 && t.editor != nil && len(t.editor.Text) > 0:
		t.editor.Clear()
		return nil
	case t.busy == 0:
		t.interrupted = true
		t.view.note("Ctrl-C again leaves")
		return nil
	}
	t.interrupted = true
	return t.interrupt()
}

// interrupt breaks off the turn in flight, if nothing else follows for good.
func (t *conversation) interrupt() error {
	if t.closing {
		return errInterrupted
	}
	err := t.stream.Send(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Interrupt{Interrupt: &symbiov1.Interrupt{}}})
	if err != nil && !errors.Is(err, io.EOF) { // that it has ended is told elsewhere
		return err
	}
	return nil
}

// draw shows what is typed, and what is being done.
func (t *conversation) draw() {
	s := t.view.screen
	if s == nil {
		return
	}
	if t.editor == nil {
		t.drawStatus()
		return
	}
	if t.closing {
		s.setInput("", 0)
		return
	}
	prompt := "> "
	if len(t.questions.open) > 0 {
		prompt = "allow? "
	}
	row, cursor := t.editor.Row(prompt, s.Columns())
	if hint := t.hint(); hint != "" && len(t.editor.Text) == 0 && len(t.questions.open) == 0 {
		row += s.styled(styleDim, terminal.Fit(hint, s.Columns()-cursor))
	}
	s.setInput(row, cursor)
}

func (t *conversation) hint() string {
	switch {
	case t.busy > 0 && t.interrupted:
		return "stopping (Ctrl-C again leaves)"
	case t.busy > 0:
		return t.view.transcriptView.status(t.view.now(), t.busySince) + " (type to steer, Ctrl-C stops it)"
	case len(t.unsent) > 0:
		return "Enter sends what was kept"
	}
	return ""
}

// drawStatus is draw where whole lines are read.
func (t *conversation) drawStatus() {
	s := t.view.screen
	idle := t.busy == 0 && t.options.Keep && !t.closing && !t.inputEnded
	switch {
	case t.isInteractive() && idle && !t.prompted:
		s.setInput("", 0)
		t.prompted = true
		fmt.Fprint(t.env.Err, "> ")
	case t.isInteractive() || t.busy == 0 || len(t.questions.open) > 0:
		s.setInput("", 0) // what is typed stands there
	default:
		s.setInput(s.styled(styleDim, terminal.Fit("  "+t.view.transcriptView.status(t.view.now(), t.busySince), s.Columns())), 0)
	}
}
