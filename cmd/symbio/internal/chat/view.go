package chat

import (
	"errors"
	"fmt"
	"strings"

	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/internal/security/visible"
)

// view shows a conversation in one of three ways: with --json one event per line; on a terminal
// through a transcriptView; and through pipes the answer on standard output and one line per event
// on standard error. It is for one goroutine.
type view struct {
	env *command.Env
	// screen is the terminal that is written to; nil if there is none.
	screen         *screen
	transcriptView *transcriptView
	// term is the terminal that draws instead; nil if there is none.
	term Terminal
	// pretty is true when standard error is a terminal: then events are shown on the screen, not
	// only the answer. Without it the events are lines of text for a log.
	pretty bool
	// silent shows nothing: a report follows at the end.
	silent bool
	// paused is true while a question is shown. Events wait in heldEvents, so that nothing is
	// written below the question.
	paused bool
	// pastNotes are shown below the next transcript, which is then the past of a conversation that
	// goes on. pastShown is true if it was shown before, but for its last answer.
	pastNotes []string
	pastShown bool
	// heldEvents are the events since the question was shown, at most maxHeldEvents.
	heldEvents []event.Event
}

// maxHeldEvents bounds the events that wait for the answer to a question. Later ones are shown at
// once.
const maxHeldEvents = 1000

func newView(env *command.Env) *view {
	s := &view{env: env, pretty: env.ErrIsTerminal, screen: NewScreen(env)}
	s.transcriptView = newTranscriptView(s)
	return s
}

// isInteractive reports whether a person types at a terminal and text for people is printed.
func (s *view) isInteractive() bool { return s.env.InIsTerminal && !s.env.JSON }

// err returns the error that prevents further output; nil if there is none.
func (s *view) err() error {
	if s.screen == nil {
		return nil
	}
	return s.screen.err
}

// event shows one event. The error is one of writing to a pipe; errors of the screen are in err.
func (s *view) event(e event.Event) error {
	switch {
	case s.silent:
		return nil
	case s.env.JSON:
		return s.env.PrintLine(e)
	case s.term != nil:
		s.term.Show(e)
		return nil
	case s.paused && len(s.heldEvents) < maxHeldEvents:
		s.heldEvents = append(s.heldEvents, e)
		return nil
	case s.screen != nil:
		if s.transcriptView.event(e); s.pretty {
			return nil
		}
	}
	// The text comes whole with the result, and a line for each piece of it, or of the thoughts, would fill the log.
	switch e.Type {
	case event.TypeText, event.TypeTurn, event.TypeThought, event.TypeSettings:
		return nil
	}
	_, err := fmt.Fprintln(s.env.Err, e.Time.Local().Format("15:04:05"), command.EventLine(e))
	return err
}

// problem returns the error text of a result whose status is not "done".
func problem(r event.End) string {
	if r.Status == "interrupted" {
		return "the task was interrupted"
	}
	// The person knows whose task it is, and that a model is asked in turns.
	why := r.Error
	if text, ok := strings.CutPrefix(why, "send task to "); ok {
		_, why, _ = strings.Cut(text, ": ")
	}
	if at, text, ok := strings.Cut(why, " of the model: "); ok && strings.HasPrefix(at, "turn ") {
		why = text
	}
	return "the task " + r.Status + ": " + terminal.Printable(why)
}

// result shows the end of a turn: the answer, if it was not streamed, and what was spent. It
// returns the part of the event, whose status the caller evaluates.
func (s *view) result(e event.Event) (r event.End, err error) {
	r = event.PartOf[event.End](e)
	if s.env.JSON {
		return r, s.event(e)
	}
	s.release()
	switch {
	case s.term != nil:
		s.term.Show(e)
	case s.screen != nil:
		s.transcriptView.finish(e.Text)
	}
	if !s.env.OutIsTerminal && e.Text != "" {
		err = s.env.PrintPayload([]byte(e.Text))
	}
	if r.Spent != nil {
		s.note(SpentText(*r.Spent))
	}
	return r, err
}

// gap separates what is shown next by an empty line.
func (s *view) gap() {
	if s.screen != nil {
		s.screen.blankBefore = true
	}
}

// printTranscript shows what the agent remembers: for /transcript, or before a conversation goes on, when pastNotes are
// set, which are shown below. The node sends the latest messages only and counts the others in Omitted.
func (s *view) printTranscript(e event.Event) error {
	t := event.PartOf[event.Transcript](e)
	for i := len(t.Transcript) - 1; s.pastNotes != nil && s.pastShown && i > 0; i-- {
		if t.Transcript[i].Role == llm.User {
			t.Omitted, t.Transcript = t.Omitted+i, t.Transcript[i:]
			break
		}
	}
	title := "What the agent remembers"
	if len(t.Transcript) == 0 {
		title = "The agent remembers nothing yet"
	}
	if t.Omitted > 0 {
		title += fmt.Sprintf(" (%s before these, not shown)", visible.Plural(t.Omitted, "message"))
	}
	if t.PendingSteering > 0 {
		title += fmt.Sprintf(" (not yet delivered: %d)", t.PendingSteering)
	}
	switch notes := s.pastNotes; {
	case notes == nil && s.term != nil:
		s.term.Show(Memory{title, t.Transcript})
		return nil
	case notes == nil || t.Omitted > 0:
		s.note(title)
	}
	err := s.past(e.Agent, t.Transcript)
	for _, text := range s.pastNotes {
		s.note(text)
	}
	s.pastNotes = nil
	return err
}

// past shows messages of the agent as they were shown when they came.
func (s *view) past(agent string, messages []llm.Message) (err error) {
	for _, shown := range Past(agent, messages) {
		switch shown := shown.(type) {
		case Echo:
			if s.term == nil {
				s.message("> " + string(shown))
			}
			s.echo(string(shown))
		case event.Event:
			err = errors.Join(err, s.event(shown))
		}
	}
	return err
}

// newAgent prepares for the events of another agent in the place of the one that is shown.
func (s *view) newAgent() {
	if s.term != nil {
		s.term.Show(NewAgent{})
	} else if s.screen != nil {
		s.screen.finish()
		s.transcriptView = newTranscriptView(s)
	}
}

// question shows an approval request and a prompt, behind which the answer follows on the same line.
// Events are held back until release. A terminal shows all open questions at once; see draw.
func (s *view) question(q Question) {
	if s.term != nil {
		return
	}
	s.paused = true
	if s.screen != nil {
		s.screen.finish()
	}
	fmt.Fprintf(s.env.Err, "\n%s\n%s", QuestionText(q), choices(q))
}

// release shows the events that were held back during a question. The screen keeps the first error
// of writing; view.err returns it.
func (s *view) release() {
	s.paused = false
	held := s.heldEvents
	s.heldEvents = nil
	for _, e := range held {
		_ = s.event(e)
	}
}

// echo shows the text that was typed. A terminal from which lines are read has echoed it already.
func (s *view) echo(text string) {
	if s.term != nil {
		s.term.Show(Echo(text))
	}
}

// open opens a part of the terminal.
func (s *view) open(what any) {
	if s.term == nil {
		s.note("this needs a terminal that can be drawn to")
	} else {
		s.term.Show(what)
	}
}

// sessions lists other sessions of a node. On a terminal that is drawn to one of them can be chosen.
func (s *view) sessions(node string, found Sessions) {
	switch {
	case len(found) == 0:
		s.note("node " + terminal.Printable(node) + " has no other session of this directory")
	case s.term != nil:
		s.term.Show(found)
	default:
		for _, c := range found {
			s.note(c.ID + "  " + c.When + "  " + terminal.Printable(c.Title))
		}
	}
}

// page shows a text that is to be read and closed; where nothing can be opened it is a message.
func (s *view) page(title, text string) {
	if s.term != nil {
		s.term.Show(Page{title, text})
	} else {
		s.message(text)
	}
}

// message shows a text of several lines to the person; note is for remarks, problem for errors.
// With --json they show nothing.
func (s *view) message(text string) { s.print(stylePlain, text) }
func (s *view) note(text string)    { s.print(styleDim, "  "+text) }
func (s *view) problem(text string) { s.print(styleBad, text) }

func (s *view) print(style, text string) {
	switch {
	case s.env.JSON:
	case s.term != nil && style == stylePlain:
		s.term.Show(Text(text))
	case s.term != nil:
		s.term.Show(Note{Text: strings.TrimSpace(text), Bad: style == styleBad})
	case s.screen != nil && s.pretty:
		s.screen.lines(style, text)
	default:
		fmt.Fprintln(s.env.Err, strings.TrimSpace(text))
	}
}

// leave closes the view of a conversation. At a terminal it shows how to go on with the session.
func (s *view) leave(from sessionRef) {
	s.close()
	if from.id != "" && from.tasks > 0 && !from.gone && s.env.ErrIsTerminal {
		s.note("session " + from.id + "; symbio chat --resume " + from.id + " goes on")
	}
}

// close finishes the last line and restores the terminal. The screen can still be written to
// afterwards.
func (s *view) close() {
	if s.term != nil {
		if err := s.term.Close(); err != nil && s.screen.err == nil {
			s.screen.err = err
		}
		s.term = nil
	}
	if s.screen != nil {
		s.screen.finish()
	}
}
