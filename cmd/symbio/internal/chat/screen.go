package chat

import (
	"fmt"
	"io"
	"strings"

	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
)

// screen writes to a terminal from top to bottom and redraws only the last two rows: the unfinished
// row of prose, and below it the input row. Nothing above them is moved or overwritten, so that all
// output can be scrolled and copied. It is for one goroutine.
type screen struct {
	// w is the terminal.
	w io.Writer
	// Columns returns the current width of the terminal. It is asked at each output, because the
	// window can change.
	Columns func() int
	// Color is true when styles are shown. It is false with NO_COLOR and on a dumb terminal.
	Color bool
	// dumb is true when the terminal cannot move its cursor (TERM=dumb). Prose is then written as
	// it comes, and there is no input row.
	dumb bool

	// blankBefore asks for an empty line before the next output. It separates the answers of two
	// turns.
	blankBefore bool
	// partialRow is the unfinished row of prose. It is shorter than the terminal is wide, except on
	// a dumb terminal.
	partialRow string
	// inputRow is the row below it, cut to fit; "" if there is none.
	inputRow string
	// cursor is the column of the cursor in inputRow, from 0.
	cursor int
	// drawnRows is how many of the two rows are on the terminal now: 0 to 2.
	drawnRows int
	// err is the first error of writing. Later output is dropped. A terminal that is gone cannot be
	// written to again.
	err error
}

// prose appends streamed text, which may end anywhere. Complete rows are written for good; the last
// one stays redrawable. A dumb terminal wraps long rows by itself.
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

// finish ends an unfinished row of prose. It does nothing when there is none.
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

// The styles of a line: parameters of the escape sequence SGR.
const (
	stylePlain = ""
	styleDim   = "2"
	styleBad   = "31"
	StyleBold  = "1"
)

// lines writes text of several lines, wrapped to the terminal, above the input row. It ends an
// unfinished row of prose first.
func (s *screen) lines(style, text string) {
	s.finish()
	var b strings.Builder
	if s.blankBefore {
		b.WriteString("\n")
		s.blankBefore = false
	}
	for _, row := range terminal.Rows(text, s.Columns()) {
		b.WriteString(s.styled(style, row) + "\n")
	}
	if s.dumb {
		s.write(b.String())
		return
	}
	s.draw(b.String())
}

// styled returns text in a style, unchanged when the terminal shows no colors.
func (s *screen) styled(style, text string) string {
	if !s.Color || style == stylePlain || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// setInput replaces the input row, which must fit the terminal; "" removes it.
func (s *screen) setInput(row string, cursor int) {
	if s.dumb || row == s.inputRow && cursor == s.cursor {
		return
	}
	s.inputRow, s.cursor = row, cursor
	s.draw("")
}

// draw writes complete lines above the two redrawable rows, and these again below. All goes out in
// one write, which avoids flicker. The cursor stands in the last of the drawn rows before and
// after.
func (s *screen) draw(done string) {
	var b strings.Builder
	// CUU moves up to the first drawn row; CR and ED erase it and all below.
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
			// CUF takes 0 for 1, so a cursor in the first column is not moved.
			fmt.Fprintf(&b, "\x1b[%dC", s.cursor)
		}
	}
	s.write(b.String())
}

// write writes text as it is and keeps the first error.
func (s *screen) write(text string) {
	if s.err != nil || text == "" {
		return
	}
	_, s.err = io.WriteString(s.w, text)
}

// printableLines makes text of several lines safe for a terminal; tabs are four spaces. Line breaks
// stay.
func printableLines(text string) string {
	text = strings.ReplaceAll(text, "\t", "    ")
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = terminal.Printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

// styledLine writes one line that is already cut and styled. It must fit one row.
func (s *screen) styledLine(line string) {
	s.finish()
	s.blankBefore = false
	if s.dumb {
		s.write(line + "\n")
		return
	}
	s.draw(line + "\n")
}

// NewScreen returns the terminal on which a person reads: standard output if it is one, else
// standard error; nil if neither is, and with --json. Colors are off with NO_COLOR set and on a
// dumb terminal.
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
