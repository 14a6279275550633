package tui

import (
	"fmt"
	"strings"
)

// maxDiffRows bounds the rows of a diff in the scrollback; Ctrl-O shows all.
const maxDiffRows = 30

// diffRows returns a unified diff with colors, at most limit rows of it. Rows are cut, so that a line of
// the file is a row.
func diffRows(s styles, diff string, columns, limit int) (rows []string) {
	all := strings.Split(strings.TrimRight(diff, "\n"), "\n")
	for i, line := range all {
		if len(rows) == limit {
			return append(rows, paint(s.dim, fmt.Sprintf("    … %d more lines", len(all)-i)))
		}
		style := s.dim
		switch {
		case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"):
		case strings.HasPrefix(line, "+"):
			style = s.good
		case strings.HasPrefix(line, "-"):
			style = s.bad
		case strings.HasPrefix(line, "@@"):
			style = s.accent
		}
		rows = append(rows, paint(style, cut("    "+clean(line), columns)))
	}
	return rows
}
