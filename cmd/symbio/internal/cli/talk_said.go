package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"symbio/cmd/symbio/internal/node"
	symbiov1 "symbio/proto/symbio/v1"
)

const (
	pasteOn  = "\x1b[?2004h" // the terminal marks what is pasted
	pasteOff = "\x1b[?2004l"
)

// keyboard reads keys from a terminal that can hand over each: then what is typed has a row of its own. Elsewhere
// whole lines are read, as the terminal edits them.
func (t *talk) keyboard(ctx context.Context, g *errgroup.Group) (keys <-chan []rune, restore func() error, err error) {
	in, ok := t.app.In.(*os.File)
	s := t.show.screen
	if !ok || !t.front || s == nil || s.still || !canRaw(in) {
		return nil, func() error { return nil }, nil
	}
	raw, err := rawTerminal(in)
	if err != nil {
		return nil, nil, fmt.Errorf("the terminal: %w", err)
	}
	t.editor = &editor{}
	s.write(pasteOn)
	typed := make(chan []rune)
	g.Go(func() error {
		defer close(typed)
		from := typing{in: in}
		for ctx.Err() == nil {
			found, err := from.next()
			if err != nil {
				return nil // the terminal is gone: nothing more is typed
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
	return typed, func() error { s.write(pasteOff); return raw() }, nil
}

// keys takes keys; none are left when the terminal is gone.
func (t *talk) keys(ctx context.Context, pressed []rune, ok bool) error {
	if !ok {
		return t.endNow()
	}
	for _, key := range pressed {
		var err error
		switch t.editor.press(key) {
		case editSend:
			err = t.enter(ctx, t.editor.take())
		case editStop:
			err = t.stop()
		case editEnd:
			t.ended = true
			t.settle()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lines is where the next line comes from, nil while none is wanted. Through a pipe it is the next message, so it
// waits for the answer to the one before; at a terminal it may be for the turn in flight.
func (t *talk) lines() <-chan string {
	watched := t.front && (t.app.OutIsTerminal || t.app.ErrIsTerminal)
	switch {
	case t.editor != nil || t.ended || t.leaving:
		return nil
	case len(t.ask.open) > 0, watched, t.manner.keep && t.busy == 0:
		return t.input.next()
	}
	return nil
}

// line takes one line, or the end of them.
func (t *talk) line(ctx context.Context, line string, ok bool) error {
	t.asked = false
	if !ok {
		t.ended = true
		if t.input.err != nil {
			return fmt.Errorf("reading standard input: %w", t.input.err)
		}
		t.settle()
		return t.unanswered(ctx)
	}
	if len(t.ask.open) > 0 {
		return t.enter(ctx, line)
	}
	text, more := continued(t.broken, line)
	if more {
		t.broken = append(t.broken, strings.TrimSuffix(line, `\`))
		return nil
	}
	t.broken = nil
	return t.enter(ctx, text)
}

// enter takes what was typed: an answer, a command, or a message.
func (t *talk) enter(ctx context.Context, text string) error {
	t.pressed = false
	if len(t.ask.open) > 0 {
		if t.draft != "" && strings.TrimSpace(text) == "" {
			return nil // meant for what was being typed, not for a question that came just then
		}
		err := t.ask.answer(ctx, text)
		t.resume()
		return err
	}
	if t.leaving {
		return nil
	}
	if t.person() {
		if name, ok := strings.CutPrefix(text, "/"); ok && !strings.HasPrefix(name, "/") {
			return t.command(name)
		}
		if strings.HasPrefix(text, "//") {
			text = text[1:]
		}
	}
	if strings.TrimSpace(text) == "" && (t.busy > 0 || len(t.kept) == 0) {
		return nil
	}
	if t.busy > 0 {
		t.show.echo(text)
		return t.steer(text)
	}
	return t.say(text)
}

// say gives the agent its next message, and with it what it was to be told before.
func (t *talk) say(text string) error {
	if text = strings.TrimSpace(text); text != "" {
		t.kept = append(t.kept, text)
	}
	text, t.kept = strings.Join(t.kept, "\n"), nil
	t.show.echo(text)
	if t.busy++; t.busy == 1 {
		t.since = t.show.now()
	}
	return t.send(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Next{Next: &symbiov1.NextMessage{Text: text}}})
}

// steer says something to the turn in flight.
func (t *talk) steer(text string) error {
	text = strings.TrimSpace(text)
	t.steered = append(t.steered, text)
	return t.send(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Steer{Steer: &symbiov1.SteerMessage{Text: text}}})
}

func (t *talk) send(r *symbiov1.ConverseRequest) error {
	err := t.stream.Send(r)
	if errors.Is(err, io.EOF) {
		return nil // why the stream has ended is told where events come from
	}
	return err
}

// receipt tells what became of what was typed while the agent worked. The agent's own event comes in the order of what
// it does; the receipt is of what the agent was never given, too. The first of the two is shown.
func (t *talk) receipt(e node.Event) error {
	var r struct{ Text, Outcome, Why string }
	if err := json.Unmarshal(e.Data, &r); err != nil {
		return fmt.Errorf("a receipt: %w", err)
	}
	i := slices.Index(t.steered, r.Text)
	if i < 0 && e.Type == "receipt" {
		return nil
	}
	if i < 0 {
		return t.show.event(e) // said elsewhere, or to another agent
	}
	t.steered = slices.Delete(t.steered, i, i+1)
	text := clip(firstLine(r.Text), 60)
	switch {
	case r.Outcome == "delivered":
		t.show.note("delivered: " + text)
	case r.Outcome == "kept" && t.manner.keep:
		t.show.note("goes with the next message: " + text)
	case t.manner.keep:
		t.kept = append(t.kept, r.Text)
		t.show.note("not delivered, kept for your next message (Enter sends it): " + text)
	default:
		t.show.note("not delivered: " + text)
	}
	return nil
}

// question takes what is asked, and what was answered.
func (t *talk) question(ctx context.Context, e node.Event) error {
	if err := t.ask.event(e); err != nil {
		return err
	}
	t.resume()
	return t.unanswered(ctx)
}

// put shows a question. What was being typed is no answer to it.
func (t *talk) put(q question) {
	if t.editor != nil && len(t.editor.text) > 0 {
		t.draft = t.editor.take()
	}
	t.show.question(q, t.editor != nil)
}

// resume gives back what was being typed, and shows what happened meanwhile.
func (t *talk) resume() {
	if len(t.ask.open) > 0 {
		return
	}
	if t.draft != "" && len(t.editor.text) == 0 {
		t.editor.text = []rune(t.draft)
		t.editor.at = len(t.editor.text)
	}
	t.draft = ""
	t.show.release()
}

// unanswered denies what nobody is left to answer.
func (t *talk) unanswered(ctx context.Context) error {
	for t.ended && t.editor == nil && len(t.ask.open) > 0 {
		if err := t.ask.answer(ctx, ""); err != nil {
			return err
		}
		t.resume()
	}
	return nil
}

// talkHelp is what /help says.
const talkHelp = `A line that is typed while the agent works is put to it at the next safe place; otherwise it is the next message.
Pasted text stays one message; a line that ends in \ goes on in the next one.
  /next TEXT    a message for after this answer
  /transcript   what the agent remembers, and how much waits to be put to it
  /stop         break the answer off; Ctrl-C does, too
  /exit         leave; Ctrl-D, or Ctrl-C twice, does, too
  //TEXT        a message that begins with a slash`

// command does what is typed with a slash before it.
func (t *talk) command(line string) error {
	name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	switch name {
	case "help":
		t.show.tell(talkHelp)
	case "transcript":
		return t.send(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Transcript{Transcript: &symbiov1.AskTranscript{}}})
	case "exit", "quit":
		return t.endNow()
	case "stop":
		if t.busy > 0 {
			return t.interrupt()
		}
		t.show.note("nothing is being done")
	case "next":
		if strings.TrimSpace(rest) == "" {
			t.show.note("/next TEXT: there is no text")
			return nil
		}
		return t.say(rest)
	default:
		t.show.note(fmt.Sprintf("there is no /%s; /help shows what there is, and //%s is a message", printable(name), printable(name)))
	}
	return nil
}
