package chat

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"symbio/agent/event"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
)

// lineInput are whole lines of a person or a program, where there is no Terminal.
type lineInput struct {
	// lines has the lines. Reading them starts with the first call of nextLine that wants a line.
	lines *command.Input
	// foreground is true when lines may be read before they are asked for; see readsAhead.
	foreground bool
	// partial holds the lines of an unfinished message; each ended in a backslash.
	partial []string
	// ended is true after the end of standard input, or Ctrl-D.
	ended bool
	// prompted is true while the prompt for a line stands on the terminal.
	prompted bool
}

// readsAhead reports whether input may be read before it is asked for: a person types at the
// terminal, and the shell has not put the command into the background, where a read would stop the
// process. It is asked once, when the conversation begins.
func readsAhead(env *command.Env) bool {
	in, ok := env.In.(*os.File)
	return env.InIsTerminal && !env.JSON && (!ok || terminal.InForeground(in))
}

// nextLine returns the channel of the next line of input, nil while no line is wanted. Through a pipe
// a line is the next message, so it is read only after the answer to the one before; at a terminal
// it may steer the turn in flight. Asking for the channel starts the read, so it is asked for only
// when a line is wanted.
func (t *conversation) nextLine() <-chan string {
	watched := t.input.foreground && (t.env.OutIsTerminal || t.env.ErrIsTerminal)
	switch {
	case t.view.term != nil || t.input.ended || t.shutdown.closing || t.session.gone:
		return nil
	case len(t.questions.open) > 0, t.shutdown.patch.asked, watched, t.options.Keep && !t.outbox.busy():
		return t.input.lines.Next()
	}
	return nil
}

// line handles one line of input; ok is false at the end of the input. An answer to a question is
// one line and cannot be continued with a backslash.
func (t *conversation) line(ctx context.Context, line string, ok bool) error {
	t.input.prompted = false
	if !ok {
		t.input.ended = true
		// An unreadable input is not the same as its end.
		if t.input.lines.Err != nil {
			return fmt.Errorf("reading standard input: %w", t.input.lines.Err)
		}
		t.closeWhenDone()
		return t.denyUnanswered(ctx)
	}
	// The line answers the first question.
	if len(t.questions.open) > 0 {
		return t.submit(ctx, line)
	}
	rest, more := strings.CutSuffix(line, `\`)
	if t.input.partial = append(t.input.partial, rest); more {
		return nil
	}
	text := strings.Join(t.input.partial, "\n")
	t.input.partial = nil
	return t.submit(ctx, text)
}

// submit handles a complete text: the answer to a question, a command that begins with a slash, or
// a message. While the agent works a message steers it. Blank text sends nothing, unless kept
// steering waits to be sent. After closeSend only answers to questions count.
func (t *conversation) submit(ctx context.Context, text string) error {
	t.shutdown.interrupted = false
	if len(t.questions.open) > 0 && t.view.term == nil {
		return t.unlessGone(t.questions.answer(ctx, text))
	}
	if t.shutdown.closing {
		return nil
	}
	if t.shutdown.patch.asked {
		if !t.settlePatch(&text) {
			t.closeWhenDone()
		}
		return nil
	}
	if t.undo.apply != nil {
		t.undo.answer(ctx, t.session.id, text)
		return nil
	}
	if t.view.isInteractive() {
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
	if strings.TrimSpace(text) == "" && (t.outbox.busy() || len(t.outbox.unsent) == 0) {
		return nil
	}
	// Steering has no pictures: they wait for the end of the answer, with their text.
	if t.outbox.busy() && len(t.outbox.pictures) == 0 {
		t.view.echo(text)
		return t.steer(text)
	}
	return t.sendMessage(text)
}

// unlessGone returns the error of a call; nil if the node is gone and is waited for, since the stream ends, too.
func (t *conversation) unlessGone(err error) error {
	if t.options.Reconnect && command.IsUnavailable(err) {
		return nil
	}
	return err
}

// sendMessage sends the next message, preceded by steering that was not delivered before. The
// person sees all of it as one message. A message that is sent while a turn runs, by /next, waits
// on the node for its end.
func (t *conversation) sendMessage(text string) error {
	if text = strings.TrimSpace(text); text != "" {
		t.outbox.unsent = append(t.outbox.unsent, text)
	}
	text, t.outbox.unsent = strings.Join(t.outbox.unsent, "\n"), nil
	pictures := t.outbox.pictures
	t.outbox.pictures = nil
	t.view.echo(text)
	t.outbox.add(text)
	return t.link.next(text, pictures...)
}

// steer sends a text to the turn in flight. The node reports in a receipt whether the model got it.
// The text stays in pendingSteering until then.
func (t *conversation) steer(text string) error {
	text = strings.TrimSpace(text)
	t.outbox.pendingSteering = append(t.outbox.pendingSteering, text)
	return t.link.send(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Steer{Steer: &symbiov1.SteerMessage{Text: text}}})
}

// receipt shows what became of a text that was typed while the agent worked. The node sends two
// events about it: "steered" from the agent, in the order of its work, and "receipt", which also
// covers texts that the agent never got. The first of the two is shown. Outcomes are "delivered",
// "kept" (the agent has the text for its next turn) and "returned".
func (t *conversation) receipt(e event.Event) error {
	outcome := event.PartOf[event.Steering](e).Outcome
	i := slices.Index(t.outbox.pendingSteering, e.Text)
	// The event "steered" about the same text was shown before.
	if i < 0 && e.Type == event.TypeReceipt {
		return nil
	}
	// This steering came from another terminal or node.
	if i < 0 {
		return t.view.event(e)
	}
	// A kept text has another event when it is delivered, so it stays in the list.
	if outcome != "kept" {
		t.outbox.pendingSteering = slices.Delete(t.outbox.pendingSteering, i, i+1)
	}
	text := visible.TruncateRunes(FirstLine(e.Text), 60)
	switch {
	case outcome == "delivered":
		t.view.note("delivered: " + text)
	case outcome == "kept" && t.options.Keep:
		t.view.note("kept for the next message: " + text)
	case t.options.Keep:
		t.outbox.unsent = append(t.outbox.unsent, e.Text)
		t.view.note("not delivered, kept for your next message (Enter sends it): " + text)
	default:
		t.view.note("not delivered: " + text)
	}
	return nil
}

// denyUnanswered denies the open questions after the end of the input, because no answer can come
// from it. At the end of keys the conversation ends, so this is about whole lines only.
func (t *conversation) denyUnanswered(ctx context.Context) error {
	for t.input.ended && t.view.term == nil && len(t.questions.open) > 0 {
		if err := t.questions.answer(ctx, ""); err != nil {
			return err
		}
	}
	return nil
}
