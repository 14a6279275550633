package cli

import (
	"strings"

	"golang.org/x/text/width"
)

// size of a terminal that does not say it.
const (
	usualColumns = 80
	usualLines   = 24
)

// cellsOf is how many columns of a terminal a character takes.
func cellsOf(r rune) int {
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// fit is text that cannot move a cursor, cut to so many columns. The last one stays free: some terminals
// begin a new line when it is written.
func fit(text string, columns int) string {
	text = printable(text)
	used := 0
	for i, r := range text {
		if used += cellsOf(r); used >= columns {
			return text[:i]
		}
	}
	return text
}

// cellsIn is how many columns text takes.
func cellsIn(text string) (n int) {
	for _, r := range text {
		n += cellsOf(r)
	}
	return n
}

// rows is text of several lines that cannot move a cursor, in rows of a terminal of so many columns: broken at
// spaces, where there are some.
func rows(text string, columns int) (all []string) {
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		line = printable(strings.ReplaceAll(line, "\t", "    "))
		for {
			row, rest := breakRow(line, columns)
			if all = append(all, strings.TrimRight(row, " ")); rest == "" {
				break
			}
			line = rest
		}
	}
	return all
}

// breakRow is the beginning of a line that fits into one row, but for spaces at its end, and the rest. The last column
// stays free, as in fit.
func breakRow(line string, columns int) (row, rest string) {
	used, space := 0, -1
	for i, r := range line {
		if used += cellsOf(r); used >= columns && i > 0 {
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
