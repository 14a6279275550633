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
	dumb bool

	blankBefore    bool   // what comes next is set off by an empty line
	partialRow   string // the unfinished row of prose
	inputRow string // the row below, already cut to fit; "" = none
	cursor int    // the column in it
	drawnRows  int    // how many of the two are on the terminal
	err    error  // the first of writing
}

// prose adds to the text that streams. It may end anywhere.
func (s *screen) prose(text string) {
	text = printableLines(text)
	if s.dumb {
		s.write(text)
		s.partialRow += text
		s.partialRow = s.partialRow[strings.LastIndexByte(s.partialRow, '\n')+1:]
		return
	}
	columns := s.Columns()
	var done strings.Builder
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			done.WriteString(strings.TrimRight(s.partialRow, " ") + "\n")
			s.partialRow = ""
		}
		s.partialRow += line
		for {
			row, rest := terminal.BreakRow(s.partialRow, columns)
			if rest == "" {
				break
			}
			done.WriteString(strings.TrimRight(row, " ") + "\n")
			s.partialRow = rest
		}
	}
	s.draw(done.String())
}

// finish ends the row of prose, if one is unfinished.
func (s *screen) finish() {
	if s.partialRow == "" {
		return
	}
	part := s.partialRow
	s.partialRow = ""
	if s.dumb {
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
	if s.blankBefore {
		b.WriteString("\n")
		s.blankBefore = false
	}
	for _, row := range terminal.Rows(text, s.Columns()) {
		b.WriteString(s.styled(look, row) + "\n")
	}
	if s.dumb {
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
	if s.dumb || row == s.inputRow && cursor == s.cursor {
		return
	}
	s.inputRow, s.cursor = row, cursor
	s.draw("")
}

// draw writes whole lines above the rows that change, and these anew.
func (s *screen) draw(done string) {
	var b strings.Builder
	if s.drawnRows > 1 {
		fmt.Fprintf(&b, "\x1b[%dA", s.drawnRows-1)
	}
	if s.drawnRows > 0 {
		b.WriteString("\r\x1b[J")
	}
	b.WriteString(done + strings.TrimRight(s.partialRow, " "))
	s.drawnRows = 0
	if s.partialRow != "" {
		s.drawnRows++
	}
	if s.inputRow != "" {
		if s.drawnRows++; s.drawnRows > 1 {
			b.WriteString("\n")
		}
		b.WriteString(s.inputRow + "\r")
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
	s.blankBefore = false
	if s.dumb {
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
	return &screen{w: w, Columns: func() int { return terminal.Columns(w) }, Color: env.Getenv("NO_COLOR") == "" && !dumb, dumb: dumb}
}
