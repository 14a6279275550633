package terminal

import (
	"io"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"

	"symbio/internal/security/visible"
)

// defaultColumns is the width of a terminal that does not report one, and of a pipe.
const defaultColumns = 80

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool { return term.IsTerminal(f.Fd()) }

// Columns returns the width of the terminal w; defaultColumns if w is no terminal. It asks each
// time, because the window can change.
func Columns(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if columns, _, err := term.GetSize(f.Fd()); err == nil && columns > 0 {
			return columns
		}
	}
	return defaultColumns
}

// Height returns how many rows the terminal w has; 0 = it is no terminal, or does not say.
func Height(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if _, rows, err := term.GetSize(f.Fd()); err == nil {
			return rows
		}
	}
	return 0
}

// Fit returns text made safe and cut to fewer than columns columns. The last column stays free,
// because some terminals wrap when it is written.
func Fit(text string, columns int) string {
	return ansi.Truncate(Printable(text), max(0, columns-1), "")
}

// Width returns how many columns text takes.
func Width(text string) int {
	if visible.IsPlain(text) {
		return len(text)
	}
	return ansi.StringWidth(text)
}

// Rows breaks text of several lines into rows of fewer than columns columns, at spaces where there
// are some. The rows are safe to print; tabs are four spaces.
func Rows(text string, columns int) (all []string) {
	for row := range strings.SplitSeq(ansi.Wrap(PrintableLines(strings.TrimSuffix(text, "\n")), max(1, columns-1), ""), "\n") {
		all = append(all, strings.TrimRight(row, " "))
	}
	return all
}

// The columns of a table are columnGap apart. No column is made narrower than minColumn; a table
// that is still too wide loses its last columns.
const (
	columnGap = 2
	minColumn = 10
)

// measured is how many rows of a table decide the widths of its columns. They are more than a
// person reads, and few enough that the first screen of a long table does not wait for the rest.
const measured = 1000

// Align returns the rows of a table laid out for a terminal of so many columns; each has one or more
// lines, without the last line break. The widest columns are wrapped, all to the same limit; the last
// columns are left out when they do not fit. The first measured rows; the first is the
// heading, decide the widths; the others are read as they are laid out.
func Align(rows iter.Seq[[]string], columns int) iter.Seq[string] {
	return func(yield func(string) bool) {
		next, stop := iter.Pull(rows)
		defer stop()
		var first [][]string
		for row, ok := next(); ok; row, ok = next() {
			if first = append(first, Cells(row)); len(first) == measured {
				break
			}
		}
		widths := fit(first, columns)
		for _, row := range first {
			if !yield(layOut(row, widths)) {
				return
			}
		}
		for row, ok := next(); ok; row, ok = next() {
			if !yield(layOut(Cells(row), widths)) {
				return
			}
		}
	}
}

// fit returns the widths with which a table fits so many columns.
func fit(rows [][]string, columns int) []int {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, c := range row[:min(len(row), len(widths))] {
			widths[i] = max(widths[i], Width(c))
		}
	}
	// need returns the width of the table when no column is wider than limit.
	need := func(limit int) (n int) {
		for _, w := range widths {
			n += min(w, limit) + columnGap
		}
		return n - columnGap
	}
	for len(widths) > 1 && need(minColumn) >= columns {
		widths = widths[:len(widths)-1]
	}
	limit := slices.Max(widths)
	for limit > 1 && need(limit) >= columns {
		limit--
	}
	for i := range widths {
		widths[i] = min(widths[i], limit)
	}
	return widths
}

// layOut returns a row of a table with each cell wrapped to its width, without the cells that have none.
func layOut(row []string, widths []int) string {
	row = row[:min(len(row), len(widths))]
	wrapped := make([][]string, len(row))
	height := 1
	for i, c := range row {
		wrapped[i] = Rows(c, widths[i]+1)
		height = max(height, len(wrapped[i]))
	}
	var b strings.Builder
	for y := range height {
		gap := 0 // the columns that are still empty before the next text
		for i, cell := range wrapped {
			width := 0
			if y < len(cell) && cell[y] != "" {
				b.WriteString(strings.Repeat(" ", gap) + cell[y])
				gap, width = 0, Width(cell[y])
			}
			gap += widths[i] - width + columnGap
		}
		if y < height-1 {
			b.WriteString("\n")
		}
	}
	return b.String()
}

// Cells returns the cells of a row as they are printed: safe, and "-" for an empty one, so that
// columns can be told apart by scripts.
func Cells(row []string) []string {
	out := make([]string, len(row))
	for i, c := range row {
		if out[i] = Printable(c); out[i] == "" {
			out[i] = "-"
		}
	}
	return out
}

// Printable returns foreign text on one line, without characters that could move the cursor or
// change colors.
func Printable(s string) string { return visible.Line(s, 0) }

// PrintableLines makes text of several lines safe for a terminal; tabs are four spaces. Line breaks stay.
func PrintableLines(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, "\t", "    "), "\n")
	for i := range lines {
		lines[i] = Printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

// Clip returns text made safe and cut to so many columns, with "…" where something was cut.
func Clip(text string, columns int) string {
	return ansi.Truncate(Printable(text), max(1, columns), "…")
}
