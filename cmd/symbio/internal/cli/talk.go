package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"symbio/cmd/symbio/internal/node"
	symbiov1 "symbio/proto/symbio/v1"
)

// manner says how a conversation is held.
type manner struct {
	// keep: it goes on when all that was said is answered.
	keep bool
	// hello is what a person is told first.
	hello string
}

// talk is a conversation at this terminal, or through pipes. One goroutine has all of it; others only bring events,
// keys and lines.
type talk struct {
	app     *App
	manner  manner
	signals <-chan os.Signal // see interrupts
	show    *show
	stream  symbiov1.Control_ConverseClient
	ask     questions

	editor *editor  // nil = whole lines are read
	input  *input   // them
	front  bool     // see App.ahead
	broken []string // lines that ended in a backslash
	draft  string   // what was being typed when a question came
	ended  bool     // nothing more is typed
	asked  bool     // the prompt for a line is there

	busy    int       // messages that are not answered
	since   time.Time // when the first of them began
	kept    []string  // steering that was given back
	steered []string  // what was said to turns in flight, until that is told of
	pressed bool      // Ctrl-C, and nothing since
	leaving bool      // all is said
	hurry   *time.Timer
	unlucky error // of an answer that is none
	gone    error // why nothing more can be said
}

// ahead says whether what is typed may be read before it is asked for: a person is there, and the shell has not put the
// command into the background.
func (a *App) ahead() bool {
	in, ok := a.In.(*os.File)
	return a.InIsTerminal && !a.json && (!ok || inFront(in))
}

// person says whether somebody types at a terminal, to read what comes of it.
func (t *talk) person() bool { return t.app.InIsTerminal && !t.app.json }

// hurryAfter is how long a conversation may take to end when it was told to end now: the node gives the same to
// agents that are terminated.
const hurryAfter = 5 * time.Second

// errInterrupted says that a person broke it off.
var errInterrupted = errors.New("interrupted")

// converse gives an agent its first message, if there is one, and shows what happens until the conversation is over.
func (a *App) converse(ctx context.Context, client symbiov1.ControlClient, f *conversing, signals <-chan os.Signal) (err error) {
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
	if err := stream.Send(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Open{Open: &f.req}}); err != nil {
		return streamError(stream, err)
	}
	t := &talk{app: a, manner: f.manner, signals: signals, show: a.newShow(), stream: stream, input: a.input(), front: a.ahead(), hurry: time.NewTimer(0)}
	t.hurry.Stop()
	t.ask = questions{client: client, put: t.put, tell: t.show.note}
	if f.req.GetTask() != "" {
		t.busy, t.since = 1, time.Now()
	}
	events := make(chan node.Event)
	over := make(chan error, 1)
	g.Go(func() error {
		over <- receive(ctx, stream, events)
		return nil
	})
	keys, giveBack, err := t.keyboard(ctx, &g)
	if err != nil {
		return err
	}
	restore = giveBack
	if f.manner.hello != "" && t.person() {
		t.show.note(f.manner.hello)
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
func receive(ctx context.Context, stream symbiov1.Control_ConverseClient, events chan<- node.Event) error {
	for {
		e, err := stream.Recv()
		if err != nil {
			return err
		}
		select {
		case events <- fromWire(e):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// run is the life of a conversation.
func (t *talk) run(ctx context.Context, events <-chan node.Event, over <-chan error, keys <-chan []rune) error {
	clock := time.NewTicker(time.Second)
	defer clock.Stop()
	t.settle()
	for {
		t.draw()
		var err error
		select {
		case e := <-events:
			err = t.event(ctx, e)
		case end := <-over:
			return t.end(end)
		case pressed, ok := <-keys:
			err = t.keys(ctx, pressed, ok)
		case line, ok := <-t.lines():
			err = t.line(ctx, line, ok)
		case s := <-t.signals:
			err = t.signal(s)
		case <-t.hurry.C:
			err = errInterrupted
		case <-clock.C:
		}
		if err == nil {
			err = t.show.err()
		}
		if err != nil {
			t.show.close()
			return err
		}
	}
}

// end is what became of a conversation whose stream has ended.
func (t *talk) end(err error) error {
	t.show.close()
	switch {
	case !errors.Is(err, io.EOF):
		return err
	case t.gone != nil:
		return t.gone
	case t.busy > 0:
		return errors.New("the node ended the task without a result")
	}
	return t.unlucky
}

// event takes one event.
func (t *talk) event(ctx context.Context, e node.Event) error {
	switch {
	case e.Type == "result":
		return t.result(e)
	case t.leaving && t.busy == 0 && e.Type != "receipt":
		return nil // the result is the last event
	case t.person() && (e.Type == "receipt" || e.Type == "steered"):
		return t.receipt(e)
	case t.person() && e.Type == "transcript":
		return t.show.transcript(e)
	case (e.Type == "approval" || e.Type == "answered") && t.person():
		return t.question(ctx, e)
	}
	return t.show.event(e)
}

// result ends a turn.
func (t *talk) result(e node.Event) error {
	r, err := t.show.result(e)
	if err != nil {
		return err
	}
	t.busy, t.since = max(0, t.busy-1), time.Now()
	switch {
	case r.Status == "done":
	case r.Over:
		t.gone = fmt.Errorf("the agent is gone: %s", printable(r.Error))
	case t.manner.keep && t.person():
		t.show.bad(r.trouble())
	default:
		t.unlucky = errors.New(r.trouble())
	}
	t.show.gap()
	t.pressed = false
	t.settle()
	return nil
}

// settle says that nothing more follows, when that is so.
func (t *talk) settle() {
	if t.busy == 0 && (!t.manner.keep || t.ended) || t.gone != nil {
		t.leave()
	}
}

func (t *talk) leave() {
	if !t.leaving {
		t.leaving = true
		_ = t.stream.CloseSend() // it says so itself when it has ended
	}
}

// signal takes what the system sends: Ctrl-C where no keys are read, and the wish that this ends. A script that is
// interrupted ends, too.
func (t *talk) signal(s os.Signal) error {
	if s == os.Interrupt && (t.person() || !t.manner.keep) {
		return t.stop()
	}
	if t.pressed && t.leaving {
		return errInterrupted
	}
	if !t.person() {
		t.unlucky = errInterrupted
	}
	return t.endNow()
}

// endNow breaks off what is going on and leaves.
func (t *talk) endNow() error {
	t.hurry.Reset(hurryAfter)
	t.pressed = true
	if t.busy > 0 && !t.leaving {
		if err := t.interrupt(); err != nil {
			return err
		}
	}
	t.leave()
	return nil
}

// stop is Ctrl-C: it breaks an answer off; the second one leaves at once.
func (t *talk) stop() error {
	switch {
	case t.pressed:
		if t.busy == 0 && t.manner.keep && !t.leaving {
			t.leave()
			return nil
		}
		return errInterrupted
	case t.busy == 0 && t.editor != nil && len(t.editor.text) > 0:
		t.editor.take()
		return nil
	case t.busy == 0:
		t.pressed = true
		t.show.note("Ctrl-C again leaves")
		return nil
	}
	t.pressed = true
	return t.interrupt()
}

// interrupt breaks off the turn in flight, if nothing else follows for good.
func (t *talk) interrupt() error {
	if t.leaving {
		return errInterrupted
	}
	err := t.stream.Send(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Interrupt{Interrupt: &symbiov1.Interrupt{}}})
	if err != nil && !errors.Is(err, io.EOF) { // that it has ended is told elsewhere
		return err
	}
	return nil
}

// draw shows what is typed, and what is being done.
func (t *talk) draw() {
	s := t.show.screen
	if s == nil {
		return
	}
	if t.editor == nil {
		t.drawStatus()
		return
	}
	if t.leaving {
		s.below("", 0)
		return
	}
	prompt := "> "
	if len(t.ask.open) > 0 {
		prompt = "allow? "
	}
	row, cursor := t.editor.row(prompt, s.columns())
	if hint := t.hint(); hint != "" && len(t.editor.text) == 0 && len(t.ask.open) == 0 {
		row += s.dressed(lookDim, fit(hint, s.columns()-cursor))
	}
	s.below(row, cursor)
}

func (t *talk) hint() string {
	switch {
	case t.busy > 0 && t.pressed:
		return "stopping (Ctrl-C again leaves)"
	case t.busy > 0:
		return t.show.scene.status(t.show.now(), t.since) + " (type to steer, Ctrl-C stops it)"
	case len(t.kept) > 0:
		return "Enter sends what was kept"
	}
	return ""
}

// drawStatus is draw where whole lines are read.
func (t *talk) drawStatus() {
	s := t.show.screen
	idle := t.busy == 0 && t.manner.keep && !t.leaving && !t.ended
	switch {
	case t.person() && idle && !t.asked:
		s.below("", 0)
		t.asked = true
		fmt.Fprint(t.app.Err, "> ")
	case t.person() || t.busy == 0 || len(t.ask.open) > 0:
		s.below("", 0) // what is typed stands there
	default:
		s.below(s.dressed(lookDim, fit("  "+t.show.scene.status(t.show.now(), t.since), s.columns())), 0)
	}
}
