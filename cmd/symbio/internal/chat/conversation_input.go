package chat

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"symbio/agent/event"
	"symbio/cmd/symbio/internal/command"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
)

// lines returns the channel of the next line of input, nil while no line is wanted. Through a pipe
// a line is the next message, so it is read only after the answer to the one before; at a terminal
// it may steer the turn in flight. Asking for the channel starts the read, so it is asked for only
// when a line is wanted.
func (t *conversation) lines() <-chan string {
	watched := t.foreground && (t.env.OutIsTerminal || t.env.ErrIsTerminal)
	switch {
	case t.term != nil || t.inputEnded || t.closing || t.session.gone:
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
	rest, more := strings.CutSuffix(line, `\`)
	if t.partial = append(t.partial, rest); more {
		return nil
	}
	text := strings.Join(t.partial, "\n")
	t.partial = nil
	return t.submit(ctx, text)
}

// submit handles a complete text: the answer to a question, a command that begins with a slash, or
// a message. While the agent works a message steers it. Blank text sends nothing, unless kept
// steering waits to be sent. After closeSend only answers to questions count.
func (t *conversation) submit(ctx context.Context, text string) error {
	t.interrupted = false
	if len(t.questions.open) > 0 && t.term == nil {
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
	// Steering has no pictures: they wait for the end of the answer, with their text.
	if t.busy() && len(t.pictures) == 0 {
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
	pictures := t.pictures
	t.pictures = nil
	t.view.echo(text)
	t.add(text)
	return t.link.next(text, pictures...)
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
	outcome := event.PartOf[event.Steering](e).Outcome
	i := slices.Index(t.pendingSteering, e.Text)
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
		t.pendingSteering = slices.Delete(t.pendingSteering, i, i+1)
	}
	text := visible.TruncateRunes(FirstLine(e.Text), 60)
	switch {
	case outcome == "delivered":
		t.view.note("delivered: " + text)
	case outcome == "kept" && t.options.Keep:
		t.view.note("kept for the next message: " + text)
	case t.options.Keep:
		t.unsent = append(t.unsent, e.Text)
		t.view.note("not delivered, kept for your next message (Enter sends it): " + text)
	default:
		t.view.note("not delivered: " + text)
	}
	return nil
}

// question handles the events of an approval: the request, and the answer from wherever it came.
func (t *conversation) question(ctx context.Context, e event.Event) error {
	t.questions.event(e)
	t.resume()
	return t.denyUnanswered(ctx)
}

// resume shows the events that were held back during questions. It does nothing while another
// question is open.
func (t *conversation) resume() {
	if len(t.questions.open) == 0 {
		t.view.release()
	}
}

// denyUnanswered denies the open questions after the end of the input, because no answer can come
// from it. At the end of keys the conversation ends, so this is about whole lines only.
func (t *conversation) denyUnanswered(ctx context.Context) error {
	for t.inputEnded && t.term == nil && len(t.questions.open) > 0 {
		if err := t.questions.answer(ctx, ""); err != nil {
			return err
		}
		t.resume()
	}
	return nil
}
