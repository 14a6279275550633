package chat

import (
	"fmt"
	"io"
	"strings"

	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
)

// screen is a terminal that is written from above to below, as ever, and of which the last two rows may change: the
// row of prose that is not finished, and below it one for what a person types. Nothing else is moved or written over,
// so that what has been shown can be scrolled and copied. One goroutine uses it.
type screen struct {
	w       io.Writer
	Columns func() int
	Color   bool
	// still: the terminal cannot move its cursor. Prose is written as it comes, and there is no row to type in.
	still bool

	gap    bool   // what comes next is set off by an empty line
	part   string // the unfinished row of prose
	bottom string // the row below, already cut to fit; "" = none
	cursor int    // the column in it
	drawn  int    // how many of the two are on the terminal
	err    error  // the first of writing
}

// prose adds to the text that streams. It may end anywhere.
func (s *screen) prose(text string) {
	text = printableLines(text)
	if s.still {
		s.write(text)
		s.part += text
		s.part = s.part[strings.LastIndexByte(s.part, '\n')+1:]
		return
	}
	columns := s.Columns()
	var done strings.Builder
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			done.WriteString(strings.TrimRight(s.part, " ") + "\n")
			s.part = ""
		}
		s.part += line
		for {
			row, rest := terminal.BreakRow(s.part, columns)
			if rest == "" {
				break
			}
			done.WriteString(strings.TrimRight(row, " ") + "\n")
			s.part = rest
		}
	}
	s.draw(done.String())
}

// finish ends the row of prose, if one is unfinished.
func (s *screen) finish() {
	if s.part == "" {
		return
	}
	part := s.part
	s.part = ""
	if s.still {
		s.write("\n")
		return
	}
	s.draw(strings.TrimRight(part, " ") + "\n")
}

// The looks of a line.
const (
	stylePlain = ""
	styleDim   = "2"
	styleBad   = "31"
	StyleBold  = "1"
)

// lines writes text of several lines whole.
func (s *screen) lines(look, text string) {
	s.finish()
	var b strings.Builder
	if s.gap {
		b.WriteString("\n")
		s.gap = false
	}
	for _, row := range terminal.Rows(text, s.Columns()) {
		b.WriteString(s.styled(look, row) + "\n")
	}
	if s.still {
		s.write(b.String())
		return
	}
	s.draw(b.String())
}

func (s *screen) styled(look, text string) string {
	if !s.Color || look == stylePlain || text == "" {
		return text
	}
	return "\x1b[" + look + "m" + text + "\x1b[0m"
}

// setInput sets the row for what is typed; it must fit. "" takes it away.
func (s *screen) setInput(row string, cursor int) {
	if s.still || row == s.bottom && cursor == s.cursor {
		return
	}
	s.bottom, s.cursor = row, cursor
	s.draw("")
}

// draw writes whole lines above the rows that change, and these anew.
func (s *screen) draw(done string) {
	var b strings.Builder
	if s.drawn > 1 {
		fmt.Fprintf(&b, "\x1b[%dA", s.drawn-1)
	}
	if s.drawn > 0 {
		b.WriteString("\r\x1b[J")
	}
	b.WriteString(done + strings.TrimRight(s.part, " "))
	s.drawn = 0
	if s.part != "" {
		s.drawn++
	}
	if s.bottom != "" {
		if s.drawn++; s.drawn > 1 {
			b.WriteString("\n")
		}
		b.WriteString(s.bottom + "\r")
		if s.cursor > 0 {
			fmt.Fprintf(&b, "\x1b[%dC", s.cursor)
		}
	}
	s.write(b.String())
}

func (s *screen) write(text string) {
	if s.err != nil || text == "" {
		return
	}
	_, s.err = io.WriteString(s.w, text)
}

// printableLines is text of several lines without anything that could move a cursor.
func printableLines(text string) string {
	text = strings.ReplaceAll(text, "\t", "    ")
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = terminal.Printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

// styledLine writes one line that is cut and dressed already.
func (s *screen) styledLine(line string) {
	s.finish()
	s.gap = false
	if s.still {
		s.write(line + "\n")
		return
	}
	s.draw(line + "\n")
}

// NewScreen returns the terminal on which a person reads, standard output if it is one; nil = there is none.
func NewScreen(env *command.Env) *screen {
	var w io.Writer
	switch {
	case env.JSON:
		return nil
	case env.OutIsTerminal:
		w = env.Out
	case env.ErrIsTerminal:
		w = env.Err
	default:
		return nil
	}
	dumb := env.Getenv("TERM") == "dumb"
	return &screen{w: w, Columns: func() int { return terminal.Columns(w) }, Color: env.Getenv("NO_COLOR") == "" && !dumb, still: dumb}
}
