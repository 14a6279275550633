package chat

import (
	"io"
	"strings"

	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
)

// screen writes to a terminal from top to bottom and never moves the cursor, so that all output can
// be scrolled and copied. It is the terminal of a person who does not type at it; package tui draws
// the others. It is for one goroutine.
type screen struct {
	// w is the terminal.
	w io.Writer
	// Columns returns the current width of the terminal. It is asked at each output, because the
	// window can change.
	Columns func() int
	// Color is true when styles are shown. It is false with NO_COLOR and on a dumb terminal.
	Color bool

	// blankBefore asks for an empty line before the next output. It separates the answers of two
	// turns.
	blankBefore bool
	// partialRow is the unfinished row of prose.
	partialRow string
	// err is the first error of writing. Later output is dropped. A terminal that is gone cannot be
	// written to again.
	err error
}

// prose writes streamed text, which may end anywhere. The terminal wraps long rows by itself.
func (s *screen) prose(text string) {
	text = terminal.PrintableLines(text)
	s.write(text)
	s.partialRow += text
	s.partialRow = s.partialRow[strings.LastIndexByte(s.partialRow, '\n')+1:]
}

// finish ends an unfinished row of prose. It does nothing when there is none.
func (s *screen) finish() {
	if s.partialRow != "" {
		s.partialRow = ""
		s.write("\n")
	}
}

// The styles of a line: parameters of the escape sequence SGR.
const (
	stylePlain = ""
	styleDim   = "2"
	styleBad   = "31"
	StyleBold  = "1"
)

// lines writes text of several lines, wrapped to the terminal. It ends an unfinished row of prose
// first.
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
	s.write(b.String())
}

// styled returns text in a style, unchanged when the terminal shows no colors.
func (s *screen) styled(style, text string) string {
	if !s.Color || style == stylePlain || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// write writes text as it is and keeps the first error.
func (s *screen) write(text string) {
	if s.err != nil || text == "" {
		return
	}
	_, s.err = io.WriteString(s.w, text)
}

// styledLine writes one line that is already cut and styled. It must fit one row.
func (s *screen) styledLine(line string) {
	s.finish()
	s.blankBefore = false
	s.write(line + "\n")
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
	return &screen{w: w, Columns: func() int { return terminal.Columns(w) }, Color: env.Getenv("NO_COLOR") == "" && env.Getenv("TERM") != "dumb"}
}
