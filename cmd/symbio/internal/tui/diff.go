package tui

import (
	"fmt"
	"strings"
)

// maxDiffRows bounds the rows of a diff in the scrollback; Ctrl-O shows all.
const maxDiffRows = 30

// DiffRows returns a unified diff with colors, at most limit rows of it. Rows are cut, so that a line of
// the file is a row.
func DiffRows(s Styles, diff string, columns, limit int) (rows []string) {
	all := strings.Split(strings.TrimRight(diff, "\n"), "\n")
	for i, line := range all {
		if len(rows) == limit {
			return append(rows, Paint(s.Dim, fmt.Sprintf("    … %d more lines", len(all)-i)))
		}
		style := s.Dim
		switch {
		case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"):
		case strings.HasPrefix(line, "+"):
			style = s.Good
		case strings.HasPrefix(line, "-"):
			style = s.Bad
		case strings.HasPrefix(line, "@@"):
			style = s.Accent
		}
		rows = append(rows, Paint(style, Cut("    "+clean(line), columns)))
	}
	return rows
}
