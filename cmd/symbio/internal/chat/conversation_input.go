package chat

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"symbio/agent/event"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/visible"
)

// Bracketed paste of xterm: the terminal marks the beginning and the end of pasted text, so that
// its line breaks do not send messages.
const (
	pasteOn  = "\x1b[?2004h" // the terminal marks what is pasted
	pasteOff = "\x1b[?2004l"
)

// keyboard starts to read single keys from a terminal in raw mode; then the typed line has a row of
// its own. Elsewhere keys is nil and whole lines are read, as the terminal edits them.
//
// keys is closed when the terminal is gone. The caller must call restore after the goroutines of g
// have ended.
//
// The conditions: input is a terminal with raw mode, the command is in the foreground, and there is
// a screen that can redraw a row.
func (t *conversation) keyboard(ctx context.Context, g *errgroup.Group) (keys <-chan []rune, restore func() error, err error) {
	in, ok := t.env.In.(*os.File)
	s := t.view.screen
	if !ok || !t.foreground || s == nil || s.dumb || !terminal.CanRaw(in) {
		return nil, func() error { return nil }, nil
	}
	raw, err := terminal.MakeRaw(in)
	if err != nil {
		return nil, nil, fmt.Errorf("the terminal: %w", err)
	}
	t.editor = &terminal.Editor{}
	s.write(pasteOn)
	// The channel has no buffer, so the reader is at most one batch of keys ahead.
	typed := make(chan []rune)
	g.Go(func() error {
		defer close(typed)
		from := terminal.KeyReader{In: in}
		// Next returns at least every readTimeout, so the end of ctx is noticed.
		for ctx.Err() == nil {
			found, err := from.Next()
			if err != nil {
				return nil
			}
			if len(found) == 0 {
				continue
			}
			select {
			case typed <- found:
			case <-ctx.Done():
			}
		}
		return nil
	})
	// The terminal would keep the paste mode for the next program.
	return typed, func() error { s.write(pasteOff); return raw() }, nil
}

// keys handles keys from the terminal. ok is false when the terminal is gone, which ends the
// conversation. A key that is pressed while a turn runs is handled at once: the line may steer it.
func (t *conversation) keys(ctx context.Context, pressed []rune, ok bool) error {
	if !ok {
		return t.abort()
	}
	for _, key := range pressed {
		var err error
		switch t.editor.Press(key) {
		case terminal.EditSubmit:
			if t.session.gone {
				t.view.note("the text stays here until the node is back")
				continue
			}
			err = t.submit(ctx, t.editor.Clear())
		case terminal.EditInterrupt:
			err = t.stop()
		case terminal.EditEOF:
			if t.session.gone {
				return t.session.goneError()
			}
			t.inputEnded = true
			t.closeWhenDone()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lines returns the channel of the next line of input, nil while no line is wanted. Through a pipe
// a line is the next message, so it is read only after the answer to the one before; at a terminal
// it may steer the turn in flight. Asking for the channel starts the read, so it is asked for only
// when a line is wanted.
func (t *conversation) lines() <-chan string {
	watched := t.foreground && (t.env.OutIsTerminal || t.env.ErrIsTerminal)
	switch {
	case t.editor != nil || t.inputEnded || t.closing || t.session.gone:
		return nil
	case len(t.questions.open) > 0, watched, t.options.Keep && !t.busy():
		return t.input.Next()
	}
	return nil
}

// line handles one line of input; ok is false at the end of the input. An answer to a question is
// one line and cannot be continued with a backslash.
func (t *conversation) line(ctx context.Context, line string, ok bool) error {
	t.prompted = false
	if !ok {
		t.inputEnded = true
		// An unreadable input is not the same as its end.
		if t.input.Err != nil {
			return fmt.Errorf("reading standard input: %w", t.input.Err)
		}
		t.closeWhenDone()
		return t.denyUnanswered(ctx)
	}
	// The line answers the first question.
	if len(t.questions.open) > 0 {
		return t.submit(ctx, line)
	}
	text, more := command.JoinContinued(t.partial, line)
	if more {
		t.partial = append(t.partial, strings.TrimSuffix(line, `\`))
		return nil
	}
	t.partial = nil
	return t.submit(ctx, text)
}

// submit handles a complete text: the answer to a question, a command that begins with a slash, or
// a message. While the agent works a message steers it. Blank text sends nothing, unless kept
// steering waits to be sent. After closeSend only answers to questions count.
func (t *conversation) submit(ctx context.Context, text string) error {
	t.interrupted = false
	if len(t.questions.open) > 0 {
		if t.draft != "" && strings.TrimSpace(text) == "" {
			// Enter was meant for the message that was being typed, not for a question that
			// appeared just then.
			return nil
		}
		err := t.questions.answer(ctx, text)
		t.resume()
		if t.options.Reconnect && command.IsUnavailable(err) {
			return nil // the stream ends, too
		}
		return err
	}
	if t.closing {
		return nil
	}
	if t.confirm != nil {
		answerUndo(ctx, t, text)
		return nil
	}
	if t.isInteractive() {
		name, ok := strings.CutPrefix(text, "/")
		// A word with a second slash is a path, such as /etc/hosts, and not a command.
		if word, _, _ := strings.Cut(name, " "); ok && !strings.Contains(word, "/") {
			return t.command(ctx, name)
		}
		// The first slash of two says that the rest is no command.
		if strings.HasPrefix(text, "//") {
			text = text[1:]
		}
	}
	if strings.TrimSpace(text) == "" && (t.busy() || len(t.unsent) == 0) {
		return nil
	}
	if t.busy() {
		t.view.echo(text)
		return t.steer(text)
	}
	return t.sendMessage(text)
}

// sendMessage sends the next message, preceded by steering that was not delivered before. The
// person sees all of it as one message. A message that is sent while a turn runs, by /next, waits
// on the node for its end.
func (t *conversation) sendMessage(text string) error {
	if text = strings.TrimSpace(text); text != "" {
		t.unsent = append(t.unsent, text)
	}
	text, t.unsent = strings.Join(t.unsent, "\n"), nil
	t.view.echo(text)
	t.add(text)
	return t.link.next(text)
}

// steer sends a text to the turn in flight. The node reports in a receipt whether the model got it.
// The text stays in pendingSteering until then.
func (t *conversation) steer(text string) error {
	text = strings.TrimSpace(text)
	t.pendingSteering = append(t.pendingSteering, text)
	return t.link.send(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Steer{Steer: &symbiov1.SteerMessage{Text: text}}})
}

// receipt shows what became of a text that was typed while the agent worked. The node sends two
// events about it: "steered" from the agent, in the order of its work, and "receipt", which also
// covers texts that the agent never got. The first of the two is shown. Outcomes are "delivered",
// "kept" (the agent has the text for its next turn) and "returned".
func (t *conversation) receipt(e event.Event) error {
	r, err := e.Fields()
	if err != nil {
		return err
	}
	i := slices.Index(t.pendingSteering, r.Text)
	// The event "steered" about the same text was shown before.
	if i < 0 && e.Type == "receipt" {
		return nil
	}
	// This steering came from another terminal or node.
	if i < 0 {
		return t.view.event(e)
	}
	// A kept text has another event when it is delivered, so it stays in the list.
	if r.Outcome != "kept" {
		t.pendingSteering = slices.Delete(t.pendingSteering, i, i+1)
	}
	text := visible.TruncateRunes(firstLine(r.Text), 60)
	switch {
	case r.Outcome == "delivered":
		t.view.note("delivered: " + text)
	case r.Outcome == "kept" && t.options.Keep:
		t.view.note("kept for the next message: " + text)
	case t.options.Keep:
		t.unsent = append(t.unsent, r.Text)
		t.view.note("not delivered, kept for your next message (Enter sends it): " + text)
	default:
		t.view.note("not delivered: " + text)
	}
	return nil
}

// question handles the events of an approval: the request, and the answer from wherever it came.
func (t *conversation) question(ctx context.Context, e event.Event) error {
	if err := t.questions.event(e); err != nil {
		return err
	}
	t.resume()
	return t.denyUnanswered(ctx)
}

// showQuestion shows an approval request. Text that was being typed is put aside, so that it cannot
// answer the question by accident. The draft comes back by resume.
func (t *conversation) showQuestion(q event.Fields) {
	if t.editor != nil && len(t.editor.Text) > 0 {
		t.draft = t.editor.Clear()
	}
	t.view.question(q, t.editor != nil)
}

// resume gives the input back after the last question: it restores the draft and shows the events
// that were held back. It does nothing while another question is open.
func (t *conversation) resume() {
	if len(t.questions.open) > 0 {
		return
	}
	if t.draft != "" && len(t.editor.Text) == 0 {
		t.editor.Text = []rune(t.draft)
		t.editor.Cursor = len(t.editor.Text)
	}
	t.draft = ""
	t.view.release()
}

// denyUnanswered denies the open questions after the end of the input, because no answer can come
// from it. At the end of keys the conversation ends, so this is about whole lines only.
func (t *conversation) denyUnanswered(ctx context.Context) error {
	for t.inputEnded && t.editor == nil && len(t.questions.open) > 0 {
		if err := t.questions.answer(ctx, ""); err != nil {
			return err
		}
		t.resume()
	}
	return nil
}

// conversationHelp is the text of /help.
const conversationHelp = `A line is the next message. While the agent works, it is put to the agent before
its next step. Pasted text stays one message; a line that ends in \ continues in
the next one.
  /next TEXT    send a message after this answer
  /transcript   show what the agent remembers, and how much is not yet delivered
  /stop         stop the answer; the same as Ctrl-C
  /undo [N]     put files back as they were before this exchange, or exchange N;
                /undo redo undoes the latest undo
  /exit         leave; the same as Ctrl-D, or Ctrl-C twice
  //TEXT        send a message that begins with a slash`

// command runs a command that was typed with a slash; line is without it. An unknown command is
// reported and sends nothing, so that a typo does not reach the model.
func (t *conversation) command(ctx context.Context, line string) error {
	name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	switch name {
	case "help":
		t.view.message(conversationHelp)
	case "transcript":
		return t.link.askTranscript()
	case "exit", "quit":
		return t.abort()
	case "undo":
		askUndo(ctx, t, rest)
	case "stop":
		if t.busy() {
			return t.interrupt()
		}
		t.view.note("nothing is running")
	case "next":
		if strings.TrimSpace(rest) == "" {
			t.view.note("/next needs a text: /next TEXT")
			return nil
		}
		return t.sendMessage(rest)
	default:
		t.view.note(fmt.Sprintf("no command /%s; /help lists the commands, and //%s is a message", terminal.Printable(name), terminal.Printable(name)))
	}
	return nil
}
