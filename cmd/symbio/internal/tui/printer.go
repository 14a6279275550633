package tui

import (
	"strings"

	tea "charm.land/bubbletea/v2"
)

// printer has the finished rows that are not in the scrollback yet.
type printer struct {
	queue []string
	// printing is true while some of the rows are on their way: they must arrive in order, and bubbletea runs commands in any
	// order. The view stays as it is meanwhile, because how many rows fit was counted with it.
	printing bool
	// starting is true before the first frame: nothing is printed then, see output.
	starting bool
}

// print puts finished texts into the queue; the lines must fit the terminal.
func (p *printer) print(texts ...string) {
	for _, text := range texts {
		p.queue = append(p.queue, strings.Split(text, "\n")...)
	}
}

// next prints as many rows as fit.
func (p *printer) next(fit int) tea.Cmd {
	p.printing = true
	n := min(len(p.queue), fit)
	text := strings.Join(p.queue[:n], "\n")
	p.queue = p.queue[n:]
	if text == "" {
		text = " " // bubbletea prints no empty text
	}
	return tea.Sequence(tea.Println(text), func() tea.Msg { return printedMsg{} })
}

// frame is the latest view, and how far down bubbletea may have drawn.
type frame struct {
	// view is valid until dirty. ticking is true while a frameMsg is due.
	view           tea.View
	dirty, ticking bool
	// cursorRow is the lowest row of the cursor since the latest frameMsg, lastCursorRow the one before
	// that. See padded.
	cursorRow, lastCursorRow int
	// rows are the rows of the tallest view since the latest frameMsg, lastRows of the one before that; an overlay has all of
	// the screen. One of these views may be what is drawn now.
	rows, lastRows int
}

// lowest returns the lowest row in which the cursor may be.
func (f *frame) lowest() int { return max(f.cursorRow, f.lastCursorRow) }

// padded returns the view of rows. It adds empty rows when there were more before and the cursor stood
// in one of them: bubbletea loses its place when the cursor is below the last row of a new view. After
// frameTime the cursor is known to be where the view has it, and the rows go.
func (f *frame) padded(rows []string, cursor *tea.Cursor) tea.View {
	for len(rows) <= f.lowest() && f.lowest() > 0 {
		rows = append(rows, "")
	}
	v := tea.NewView(strings.Join(rows, "\n"))
	if v.Cursor = cursor; cursor != nil {
		f.cursorRow = max(f.cursorRow, cursor.Y)
	}
	return v
}
