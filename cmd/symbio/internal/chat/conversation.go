package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	symbiov1 "symbio/proto/symbio/v1"
)

// Options say how a conversation is held.
type Options struct {
	// Keep leaves the conversation open when all messages are answered: until the person leaves, or
	// standard input ends.
	Keep bool
	// Greeting is shown first, to a person only.
	Greeting string
	// Reconnect waits for a node that goes away during the conversation, if a person types at a
	// terminal and the conversation is kept. It is for nodes in other processes.
	Reconnect bool
	// Summary prints one JSON object at the end in the place of the events, with Env.JSON.
	Summary bool
	// PatchFile gets the changes of an agent of another node as a unified diff; "" = they are shown and the person is asked, or
	// with Apply they are made without a question.
	PatchFile string
	Apply     bool
	// Open opens the terminal at which a person types; nil = lines are read and written.
	Open TerminalOpener
	// Export returns a session of this machine as Markdown, for /export.
	Export func(ctx context.Context, env *command.Env, id string) (string, error)
	// dial connects to a node that is gone; nil = Env.DialNode.
	dial func(name string) (symbiov1.ControlClient, *grpc.ClientConn, error)
}

// conversation is the state of one conversation. Only the goroutine of run uses it after Converse
// has set it up, so there is no lock.
type conversation struct {
	env     *command.Env
	options Options
	// view shows all output except the input row, which draw sets.
	view *view
	// link is the connection to the node, and redialer makes another one when the node is gone.
	link     *link
	redialer *redialer
	// session is what is known of the session in which the conversation is kept.
	session sessionRef
	agent   agentInfo
	outbox  outbox
	// report is what a script learns at the end.
	report report
	// questions are the approvals that wait for this terminal.
	questions  questions
	undo       undoQuestion
	terminal   terminalState
	input      lineInput
	background background
	shutdown   shutdown
}

// agentInfo is what the node has said of the agent.
type agentInfo struct {
	// root is the id of the agent, and spent what its latest answer cost.
	root, spent string
	settings    event.Settings
	// prompts are the prompts of MCP servers and the skills for people, which are commands, too.
	prompts []*symbiov1.MCPPrompt
}

// shutdown says whether and how a conversation ends.
type shutdown struct {
	// interrupted is true after one Ctrl-C, until the next input. A second Ctrl-C leaves.
	interrupted bool
	// closing is true after closeSend: no more messages are sent. It is never reset.
	closing bool
	// deadline fires closeTimeout after abort. It is stopped until then.
	deadline *time.Timer
	// turnErr is the error of the last turn that failed, which Converse returns at the end. It is
	// not used in a conversation that a person keeps open, where the error is shown at once.
	turnErr error
	// agentErr is set when the agent has ended, so that no message can be answered any more.
	agentErr error
	patch    patchOffer
}

// closeTimeout is how long a conversation may take to end after it was asked to stop. It equals the
// time that a node gives agents that are terminated.
const closeTimeout = 5 * time.Second

// errInterrupted is returned when a signal or Ctrl-C broke the conversation off. Its text is the
// whole message to the person; the exit status is 1.
var errInterrupted = errors.New("interrupted")

// Converse opens a conversation on the node of client, gives the agent the task of req if it has
// one, and shows events until the conversation is over. It blocks.
//
// It returns nil when all turns were answered, errInterrupted after a stop by the person or a
// signal, and else the error of the last failed turn or of the connection. The terminal is restored
// before it returns. signals come from Interrupts.
//
// receive runs in a goroutine until then, beside the goroutines of the terminal. The agent lives on the node
// as long as the stream; a lost connection ends it.
func Converse(ctx context.Context, env *command.Env, client symbiov1.ControlClient, req *symbiov1.RunRequest, o Options, signals <-chan os.Signal) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	var g errgroup.Group
	defer func() {
		cancel()
		err = errors.Join(err, g.Wait())
	}()
	l, err := openLink(ctx, client, req)
	if err != nil {
		return err
	}
	v := newView(env)
	t := &conversation{env: env, options: o, view: v, input: lineInput{lines: command.NewInput(env.In), foreground: readsAhead(env)},
		shutdown:   shutdown{deadline: time.NewTimer(0)},
		background: background{view: v, group: &g, finished: make(chan func())},
		questions:  questions{client: client, show: v.question, notify: v.note, release: v.release}}
	t.undo = undoQuestion{view: v, outbox: &t.outbox}
	t.setLink(l)
	// A Timer cannot be made without being started.
	t.shutdown.deadline.Stop()
	v.silent = o.Summary
	t.redialer = &redialer{env: env, req: req, group: &g, links: make(chan redialResult, 1), dial: o.dial}
	if o.dial == nil {
		t.redialer.dial = env.Nodes().DialNode
	}
	t.session = sessionRef{resumed: req.GetSession() != "", keep: o.Keep}
	t.agent.settings = event.Settings{Model: req.GetModel(), Effort: req.GetEffort(), Mode: req.GetMode()}
	if t.session.resumed || req.GetTask() != "" {
		t.outbox.add(cmp.Or(req.GetTask(), resumedTask)) // without a task, the node says whether one goes on
	}
	g.Go(func() error {
		l.receive(ctx)
		return nil
	})
	// The greeting comes before the terminal opens. It keeps the live rows off the first row of the screen, from where some
	// terminals keep what is erased: a stale input would stand above the conversation.
	if o.Greeting != "" && t.view.isInteractive() {
		t.view.note(o.Greeting)
	}
	if err := openTerminal(ctx, t); err != nil {
		return err
	}
	if err = t.run(ctx, signals); !t.view.isInteractive() {
		err = t.report.finish(env, o.Summary, err)
	}
	return err
}

// streamError returns why a send failed. gRPC returns io.EOF from Send when the stream has ended;
// the reason is then in Recv. The stream must not be read by another goroutine yet.
func streamError(stream symbiov1.Control_ConverseClient, err error) error {
	if errors.Is(err, io.EOF) {
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
	return err
}

// run is the event loop. It returns when the stream has ended, or with the first error. It is the
// only goroutine that uses t and writes to the terminal. A nil channel of inputs or lines never
// fires.
func (t *conversation) run(ctx context.Context, signals <-chan os.Signal) error {
	// Without a task and with nothing to keep open, there is nothing to wait for.
	t.closeWhenDone()
	for {
		t.draw()
		var err error
		select {
		case e := <-t.link.events:
			err = t.event(ctx, e)
		case end := <-t.link.over:
			if !t.waitForNode(ctx, end) {
				return t.streamEnd(end)
			}
		case r := <-t.redialer.links:
			if err = r.err; err == nil {
				t.setLink(r.link)
				t.questions.client = r.link.client
			}
		case in, ok := <-t.terminal.inputs:
			err = t.handleInput(ctx, in, ok)
		case after := <-t.background.finished:
			after()
		case line, ok := <-t.nextLine():
			err = t.line(ctx, line, ok)
		case s := <-signals:
			err = t.signal(s)
		case <-t.shutdown.deadline.C:
			err = errInterrupted
		}
		if err == nil {
			err = t.view.err()
		}
		if err != nil {
			t.view.leave(t.session)
			return err
		}
	}
}

// setLink makes l the connection to the node.
func (t *conversation) setLink(l *link) { t.link, t.background.client = l, l.client }

// streamEnd returns the result of the conversation after its stream has ended with err. An error of
// the stream counts more than one of the agent, and that more than one of a turn.
func (t *conversation) streamEnd(err error) error {
	t.view.leave(t.session)
	switch {
	case t.options.Reconnect && t.session.isGone(err):
		return t.session.goneError()
	case !errors.Is(err, io.EOF):
		return err
	case t.shutdown.agentErr != nil:
		return t.shutdown.agentErr
	case t.outbox.busy():
		return errors.New("the node ended the task without a result")
	}
	return t.shutdown.turnErr
}

// event handles one event from the node. Those that belong to the dialogue with the person are
// handled here, all others are shown. Through a pipe and with --json receipts and approvals are
// events like others.
func (t *conversation) event(ctx context.Context, e event.Event) error {
	t.report.add(e)
	if e.Type == event.TypeTask && (t.agent.root == "" || t.agent.root == e.Agent) {
		t.agent.root, t.session.taken = e.Agent, true
	}
	switch {
	case e.Type == event.TypeSession && e.Agent != "":
		return t.sessionEvent(e)
	case e.Type == event.TypeResult:
		return t.result(e)
	case e.Type == event.TypePatch:
		if err := t.shutdown.patch.receive(e, t.view); err != nil {
			t.shutdown.turnErr = err
		}
		t.closeWhenDone()
		if t.env.JSON {
			return t.view.event(e)
		}
		return nil
	case t.shutdown.closing && !t.outbox.busy() && e.Type != event.TypeReceipt:
		// The node may send events after the last result; nothing is shown below the answer.
		return nil
	case t.view.isInteractive() && (e.Type == event.TypeReceipt || e.Type == event.TypeSteered):
		return t.receipt(e)
	case t.view.isInteractive() && e.Type == event.TypeTranscript:
		if t.input.prompted { // the prompt comes again below
			t.input.prompted = false
			fmt.Fprintln(t.env.Err)
		}
		return t.view.printTranscript(e)
	case (e.Type == event.TypeApproval || e.Type == event.TypeAnswered) && t.view.isInteractive():
		t.questions.event(e)
		return t.denyUnanswered(ctx)
	case e.Type == event.TypeSettings && e.Why == "":
		t.agent.settings = event.PartOf[event.Settings](e)
	}
	return t.view.event(e)
}

// result handles the end of a turn: it shows the answer and remembers an error. The conversation
// goes on after a failed turn, unless the agent is gone.
func (t *conversation) result(e event.Event) error {
	r, err := t.view.result(e)
	if err != nil {
		return err
	}
	if r.Spent != nil {
		t.agent.spent = SpentText(*r.Spent)
	}
	// The next message waits on the node and begins now.
	t.outbox.unanswered, t.outbox.busySince = t.outbox.unanswered[min(1, len(t.outbox.unanswered)):], time.Now()
	t.session.tasks = max(t.session.tasks, r.Tasks)
	switch {
	case r.Status == "done":
		if t.agent.settings.Mode == "plan" && t.options.Keep && t.view.isInteractive() {
			t.view.note("mode plan: to have it done, leave the mode with Shift-Tab, /mode ask or /mode edits, and say so")
		}
	case r.Over:
		t.shutdown.agentErr = fmt.Errorf("the agent is gone: %s", terminal.Printable(r.Error))
	case t.options.Keep && t.view.isInteractive():
		t.view.problem(problem(r))
		if strings.Contains(r.Error, llm.ErrContextLength.Error()) {
			t.view.note("/compact makes room in it, /clear begins a new one")
		}
	default:
		t.shutdown.turnErr = errors.New(problem(r))
	}
	t.view.gap()
	t.shutdown.interrupted = false
	t.closeWhenDone()
	return nil
}

// closeWhenDone ends the sending side when no further message can follow. It is called after each
// change of its inputs.
func (t *conversation) closeWhenDone() {
	if t.shutdown.agentErr != nil || !t.outbox.busy() && (!t.options.Keep || t.input.ended) && !t.settlePatch(nil) {
		t.closeSend()
	}
}

// closeSend tells the node that no more messages follow. The node then ends the stream, which run
// notices; an error of CloseSend would only repeat that.
func (t *conversation) closeSend() {
	if !t.shutdown.closing {
		t.shutdown.closing = true
		_ = t.link.stream.CloseSend()
	}
}

// signal handles a signal of the system. SIGINT acts as Ctrl-C for a person, and ends a script; the
// other signals end the conversation. An error ends the loop at once; nil lets the stream end in
// order.
func (t *conversation) signal(s os.Signal) error {
	if s == os.Interrupt && (t.view.isInteractive() || !t.options.Keep) {
		return t.stop()
	}
	// A second signal does not wait for the node any more.
	if t.shutdown.interrupted && t.shutdown.closing {
		return errInterrupted
	}
	if !t.view.isInteractive() {
		t.shutdown.turnErr = errInterrupted
	}
	return t.abort()
}

// abort interrupts the turn in flight, if there is one, and ends the conversation. The deadline
// bounds how long that may take. It returns before the conversation has ended.
func (t *conversation) abort() error {
	if t.session.gone {
		return t.session.goneError()
	}
	t.shutdown.deadline.Reset(closeTimeout)
	t.shutdown.interrupted = true
	if t.outbox.busy() && !t.shutdown.closing {
		if err := t.interrupt(); err != nil {
			return err
		}
	}
	t.closeSend()
	return nil
}

// stop handles Ctrl-C. The first one interrupts the answer, or clears the line when nothing is
// running; the second one in a row leaves. errInterrupted ends the loop at once, without waiting
// for the node.
func (t *conversation) stop() error {
	switch {
	case t.session.gone:
		return t.session.goneError()
	case t.shutdown.interrupted:
		if !t.outbox.busy() && t.options.Keep && !t.shutdown.closing && !t.shutdown.patch.asked {
			t.input.ended = true
			t.closeWhenDone()
			return nil
		}
		return errInterrupted
	case !t.outbox.busy():
		t.shutdown.interrupted = true
		t.view.note("Ctrl-C again to leave")
		return nil
	}
	t.shutdown.interrupted = true
	return t.interrupt()
}

// interrupt asks the node to break off the turn in flight. When the sending side is closed that is
// not possible any more, so the conversation ends. The turn still ends with a result, whose status is "interrupted".
func (t *conversation) interrupt() error {
	if t.shutdown.closing {
		return errInterrupted
	}
	return t.link.send(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Interrupt{Interrupt: &symbiov1.Interrupt{}}})
}

// draw shows the state before each wait. Where lines are read it prints the prompt for the next one;
// what is typed the terminal itself echoes.
func (t *conversation) draw() {
	idle := !t.outbox.busy() && t.options.Keep && !t.shutdown.closing && !t.input.ended
	switch {
	case t.view.term != nil:
		t.terminal.show(t.view.term, State{Busy: t.outbox.busy(), Stopping: t.outbox.busy() && t.shutdown.interrupted, Gone: t.session.gone,
			Closing: t.shutdown.closing, Unsent: len(t.outbox.unsent) > 0, Node: t.session.node, Session: t.session.id}, t.questions.open)
	case t.view.screen != nil && t.view.isInteractive() && idle && !t.input.prompted:
		t.view.screen.finish()
		t.input.prompted = true
		fmt.Fprint(t.env.Err, "> ")
	}
}
