package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"symbio/agent/llm"
	"symbio/cmd/symbio/internal/node"
)

// show is how a conversation is shown: as JSON, an event per line; on a terminal as a scene; and through pipes with the
// answer alone on standard output and a line per event on standard error.
type show struct {
	app    *App
	screen *screen // the terminal that is written to; nil = none
	scene  *scene
	pretty bool         // events are shown on the screen, too
	wait   bool         // a question stands there, and nothing is put below it
	held   []node.Event // what happened meanwhile
}

// mostWaiting is how many events wait for the answer to a question; more are shown below it.
const mostWaiting = 1000

func (a *App) newShow() *show {
	s := &show{app: a, pretty: a.ErrIsTerminal}
	var w io.Writer
	switch {
	case a.json:
		return s
	case a.OutIsTerminal:
		w = a.Out
	case a.ErrIsTerminal:
		w = a.Err
	default:
		return s
	}
	columns := func() int { return usualColumns }
	if f, ok := w.(*os.File); ok {
		columns = func() int { n, _ := terminalSize(f); return n }
	}
	dumb := a.Getenv("TERM") == "dumb"
	s.screen = &screen{w: w, columns: columns, color: a.Getenv("NO_COLOR") == "" && !dumb, still: dumb}
	s.scene = newScene(s.screen, a.OutIsTerminal)
	return s
}

func (s *show) now() time.Time { return time.Now() }

// err is why nothing more can be shown.
func (s *show) err() error {
	if s.screen == nil {
		return nil
	}
	return s.screen.err
}

// event shows one event.
func (s *show) event(e node.Event) error {
	switch {
	case s.app.json:
		return s.app.printLine(e)
	case s.wait && len(s.held) < mostWaiting:
		s.held = append(s.held, e)
		return nil
	case s.screen != nil && s.pretty:
		s.scene.event(e)
		return nil
	case s.screen != nil:
		s.scene.speech(e)
	}
	if e.Type == "text" || e.Type == "turn" {
		return nil
	}
	_, err := fmt.Fprintln(s.app.Err, e.Time.Local().Format("15:04:05"), eventLine(e))
	return err
}

// ended is what a result event has.
type ended struct {
	Text, Status, Error string
	Over                bool
	Spent               *spent
}

func (r ended) trouble() string {
	if r.Status == "interrupted" {
		return "the task was interrupted"
	}
	return "the task " + r.Status + ": " + printable(r.Error)
}

// result shows the end of a turn.
func (s *show) result(e node.Event) (r ended, err error) {
	if err := json.Unmarshal(e.Data, &r); err != nil {
		return r, fmt.Errorf("the result: %w", err)
	}
	if s.app.json {
		return r, s.app.printLine(e)
	}
	s.release()
	if s.screen != nil {
		s.scene.finish(r.Text)
	}
	if !s.app.OutIsTerminal && r.Text != "" {
		err = s.app.printAnswer([]byte(r.Text))
	}
	if r.Spent != nil {
		s.note(r.Spent.text())
	}
	return r, err
}

// gap sets off what comes next.
func (s *show) gap() {
	if s.screen != nil {
		s.screen.gap = true
	}
}

// transcript shows what an agent remembers.
func (s *show) transcript(e node.Event) error {
	var t struct {
		Transcript []llm.Message
		Omitted    int
		Pending    int `json:"pending_steering"`
	}
	if err := json.Unmarshal(e.Data, &t); err != nil {
		return fmt.Errorf("the transcript: %w", err)
	}
	if t.Omitted > 0 {
		s.note(fmt.Sprintf("%d messages before these are not shown", t.Omitted))
	}
	for _, m := range t.Transcript {
		if m.Text != "" {
			s.tell(fmt.Sprintf("%s: %s", m.Role, m.Text))
		}
		for _, c := range m.Calls {
			s.note(c.Name + " " + clip(plainJSON(c.Args), 200))
		}
		for _, r := range m.Results {
			s.note(r.Name + ": " + clip(printable(r.Text), 200))
		}
	}
	if len(t.Transcript) == 0 {
		s.note("nothing was said yet that is remembered")
	}
	if t.Pending > 0 {
		s.note(fmt.Sprintf("to be put to the agent: %d", t.Pending))
	}
	return nil
}

// question shows what a person is to decide; row: the answer is typed in a row of its own.
func (s *show) question(q question, row bool) {
	s.wait = true
	if !row {
		if s.screen != nil {
			s.screen.finish()
		}
		fmt.Fprintf(s.app.Err, "\n%s\n%s", q.text(), q.choices())
		return
	}
	s.screen.lines(lookBold, "\n"+q.text())
	s.screen.lines(lookPlain, strings.TrimSpace(q.choices()))
}

// release shows what happened while a question stood there.
func (s *show) release() {
	s.wait = false
	held := s.held
	s.held = nil
	for _, e := range held {
		_ = s.event(e) // writing to a screen keeps its error
	}
}

// echo shows what was typed, once its row is empty again.
func (s *show) echo(text string) {
	if s.screen != nil && !s.screen.still {
		s.screen.lines(lookBold, "> "+text)
	}
}

// tell says something to the person, note in passing, bad of something that went wrong.
func (s *show) tell(text string) { s.say(lookPlain, text) }
func (s *show) note(text string) { s.say(lookDim, "  "+text) }
func (s *show) bad(text string)  { s.say(lookBad, text) }

func (s *show) say(look, text string) {
	switch {
	case s.app.json:
	case s.screen != nil && s.pretty:
		s.screen.lines(look, text)
	default:
		fmt.Fprintln(s.app.Err, strings.TrimSpace(text))
	}
}

// close takes away what is not to stay.
func (s *show) close() {
	if s.screen != nil {
		s.screen.below("", 0)
		s.screen.finish()
	}
}
