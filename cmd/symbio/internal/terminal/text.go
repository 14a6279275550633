package terminal

import (
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/text/width"

	"symbio/security/visible"
)

// size of a terminal that does not say it.
const (
	defaultColumns = 80
	defaultLines   = 24
)

// Columns is how wide a terminal is.
func Columns(w io.Writer) int {
	columns := defaultColumns
	if f, ok := w.(*os.File); ok {
		columns, _ = size(f)
	}
	return columns
}

// runeWidth is how many columns of a terminal a character takes.
func runeWidth(r rune) int {
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Fit is text that cannot move a cursor, cut to so many columns. The last one stays free: some terminals
// begin a new line when it is written.
func Fit(text string, columns int) string {
	text = Printable(text)
	used := 0
	for i, r := range text {
		if used += runeWidth(r); used >= columns {
			return text[:i]
		}
	}
	return text
}

// Width is how many columns text takes.
func Width(text string) (n int) {
	for _, r := range text {
		n += runeWidth(r)
	}
	return n
}

// Rows is text of several lines that cannot move a cursor, in rows of a terminal of so many columns: broken at
// spaces, where there are some.
func Rows(text string, columns int) (all []string) {
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		line = Printable(strings.ReplaceAll(line, "\t", "    "))
		for {
			row, rest := BreakRow(line, columns)
			if all = append(all, strings.TrimRight(row, " ")); rest == "" {
				break
			}
			line = rest
		}
	}
	return all
}

// BreakRow is the beginning of a line that fits into one row, but for spaces at its end, and the rest. The last column
// stays free, as in fit.
func BreakRow(line string, columns int) (row, rest string) {
	used, space := 0, -1
	for i, r := range line {
		if used += runeWidth(r); used >= columns && i > 0 {
			if r == ' ' {
				return line[:i], strings.TrimLeft(line[i:], " ")
			}
			if strings.TrimSpace(line[:space+1]) != "" {
				return line[:space], line[space+1:]
			}
			return line[:i], line[i:]
		}
		if r == ' ' {
			space = i
		}
	}
	return line, ""
}

// The columns of a table are columnGap apart. To fit a terminal none is made narrower than minColumn: then one is dropped.
const (
	columnGap = 2
	minColumn = 10
)

// Align lays a table out for a terminal of so many columns: it wraps the widest columns by words, and leaves out the
// last ones for which there is no room.
func Align(all [][]string, columns int) string {
	widths := make([]int, len(all[0]))
	for _, row := range all {
		for i, c := range Cells(row)[:min(len(row), len(widths))] {
			widths[i] = max(widths[i], Width(c))
		}
	}
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
	var b strings.Builder
	for _, row := range all {
		wrapped := make([][]string, len(widths))
		height := 1
		for i, c := range Cells(row)[:min(len(row), len(widths))] {
			wrapped[i] = Rows(c, min(widths[i], limit)+1)
			height = max(height, len(wrapped[i]))
		}
		for y := range height {
			line, end := "", 0
			for i, cell := range wrapped {
				if y < len(cell) {
					line += cell[y]
				}
				end += min(widths[i], limit) + columnGap
				line += strings.Repeat(" ", end-Width(line))
			}
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
	return b.String()
}

// Cells is a row of a table as it is printed: what is empty is a dash.
func Cells(row []string) []string {
	out := make([]string, len(row))
	for i, c := range row {
		if out[i] = Printable(c); out[i] == "" {
			out[i] = "-"
		}
	}
	return out
}

// Printable is text from elsewhere with everything removed that could move a terminal's cursor.
func Printable(s string) string { return visible.Line(s, 0) }

// Clip is text cut to so many columns.
func Clip(text string, columns int) string {
	if text = Printable(text); Width(text) <= columns {
		return text
	}
	return Fit(text, max(1, columns)) + "…"
}
