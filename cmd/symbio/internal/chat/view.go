package chat

import (
	"fmt"
	"strings"
	"time"

	"symbio/agent/event"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/security/visible"
)

// view is how a conversation is shown: as JSON, an event per line; on a terminal as a scene; and through pipes with the
// answer alone on standard output and a line per event on standard error.
type view struct {
	env            *command.Env
	screen         *screen // the terminal that is written to; nil = none
	transcriptView *transcriptView
	pretty         bool          // events are shown on the screen, too
	paused           bool          // a question stands there, and nothing is put below it
	heldEvents           []event.Event // what happened meanwhile
}

// maxHeldEvents is how many events wait for the answer to a question; more are shown below it.
const maxHeldEvents = 1000

func newView(env *command.Env) *view {
	s := &view{env: env, pretty: env.ErrIsTerminal, screen: NewScreen(env)}
	if s.screen != nil {
		s.transcriptView = newTranscriptView(s.screen, env.OutIsTerminal)
	}
	return s
}

func (s *view) now() time.Time { return time.Now() }

// err is why nothing more can be shown.
func (s *view) err() error {
	if s.screen == nil {
		return nil
	}
	return s.screen.err
}

// event shows one event.
func (s *view) event(e event.Event) error {
	switch {
	case s.env.JSON:
		return s.env.PrintLine(e)
	case s.paused && len(s.heldEvents) < maxHeldEvents:
		s.heldEvents = append(s.heldEvents, e)
		return nil
	case s.screen != nil && s.pretty:
		s.transcriptView.event(e)
		return nil
	case s.screen != nil:
		s.transcriptView.textOnly(e)
	}
	if e.Type == "text" || e.Type == "turn" {
		return nil
	}
	_, err := fmt.Fprintln(s.env.Err, e.Time.Local().Format("15:04:05"), command.EventLine(e))
	return err
}

// problem says what a result tells that is not "done".
func problem(r event.Fields) string {
	if r.Status == "interrupted" {
		return "the task was interrupted"
	}
	return "the task " + r.Status + ": " + terminal.Printable(r.Error)
}

// result shows the end of a turn.
func (s *view) result(e event.Event) (r event.Fields, err error) {
	if r, err = e.Fields(); err != nil {
		return r, err
	}
	if s.env.JSON {
		return r, s.env.PrintLine(e)
	}
	s.release()
	if s.screen != nil {
		s.transcriptView.finish(r.Text)
	}
	if !s.env.OutIsTerminal && r.Text != "" {
		err = s.env.PrintPayload([]byte(r.Text))
	}
	if r.Spent != nil {
		s.note(SpentText(*r.Spent))
	}
	return r, err
}

// gap sets off what comes next.
func (s *view) gap() {
	if s.screen != nil {
		s.screen.blankBefore = true
	}
}

// printTranscript shows what an agent remembers.
func (s *view) printTranscript(e event.Event) error {
	t, err := e.Fields()
	if err != nil {
		return err
	}
	if t.Omitted > 0 {
		s.note(fmt.Sprintf("%d messages before these are not shown", t.Omitted))
	}
	for _, m := range t.Transcript {
		if m.Text != "" {
			s.message(fmt.Sprintf("%s: %s", m.Role, m.Text))
		}
		for _, c := range m.Calls {
			s.note(c.Name + " " + visible.TruncateRunes(command.PlainJSON(c.Args), 200))
		}
		for _, r := range m.Results {
			s.note(r.Name + ": " + visible.TruncateRunes(terminal.Printable(r.Text), 200))
		}
	}
	if len(t.Transcript) == 0 {
		s.note("nothing was said yet that is remembered")
	}
	if t.PendingSteering > 0 {
		s.note(fmt.Sprintf("to be put to the agent: %d", t.PendingSteering))
	}
	return nil
}

// question shows what a person is to decide; row: the answer is typed in a row of its own.
func (s *view) question(q event.Fields, row bool) {
	s.paused = true
	if !row {
		if s.screen != nil {
			s.screen.finish()
		}
		fmt.Fprintf(s.env.Err, "\n%s\n%s", questionText(q), choices(q))
		return
	}
	s.screen.lines(StyleBold, "\n"+questionText(q))
	s.screen.lines(stylePlain, strings.TrimSpace(choices(q)))
}

// release shows what happened while a question stood there.
func (s *view) release() {
	s.paused = false
	held := s.heldEvents
	s.heldEvents = nil
	for _, e := range held {
		_ = s.event(e) // writing to a screen keeps its error
	}
}

// echo shows what was typed, once its row is empty again.
func (s *view) echo(text string) {
	if s.screen != nil && !s.screen.dumb {
		s.screen.lines(StyleBold, "> "+text)
	}
}

// message says something to the person, note in passing, bad of something that went wrong.
func (s *view) message(text string) { s.print(stylePlain, text) }
func (s *view) note(text string)    { s.print(styleDim, "  "+text) }
func (s *view) problem(text string) { s.print(styleBad, text) }

func (s *view) print(look, text string) {
	switch {
	case s.env.JSON:
	case s.screen != nil && s.pretty:
		s.screen.lines(look, text)
	default:
		fmt.Fprintln(s.env.Err, strings.TrimSpace(text))
	}
}

// close takes away what is not to stay.
func (s *view) close() {
	if s.screen != nil {
		s.screen.setInput("", 0)
		s.screen.finish()
	}
}
