package terminal

import (
	"io"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"symbio/security/visible"
)

// The size of a terminal that does not report one, and of a pipe.
const (
	defaultColumns = 80
	defaultLines   = 24
)

// Columns returns the width of the terminal w; defaultColumns if w is no terminal. It asks each
// time, because the window can change.
func Columns(w io.Writer) int {
	columns := defaultColumns
	if f, ok := w.(*os.File); ok {
		columns, _ = size(f)
	}
	return columns
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

// Align returns the rows of a table laid out for a terminal of so many columns; each has one or more
// lines, without the last line break. The first row is the heading. The widest columns are wrapped, all
// to the same limit; the last columns are left out when they do not fit. Rows are laid out as they are
// read, so that the first screen of a long table is there at once.
func Align(all [][]string, columns int) iter.Seq[string] {
	widths := make([]int, len(all[0]))
	cells := make([][]string, len(all))
	for y, row := range all {
		cells[y] = Cells(row[:min(len(row), len(widths))])
		for i, c := range cells[y] {
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
	return func(yield func(string) bool) {
		for _, row := range cells {
			if !yield(layOut(row[:min(len(row), len(widths))], widths)) {
				return
			}
		}
	}
}

// layOut returns a row of a table with each cell wrapped to its width.
func layOut(row []string, widths []int) string {
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
