package tui

import (
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"symbio/cmd/symbio/internal/terminal"
)

// styles are the looks of the parts of the screen. The colors are those 16 that the person has chosen
// for the terminal, so that they can be read on light and dark grounds. Without color all are plain.
type styles struct {
	dim, bold, italic, bad, good, warn, accent, code, selected lipgloss.Style
}

func newStyles(color bool) styles {
	s := lipgloss.NewStyle
	if !color {
		return styles{s(), s(), s(), s(), s(), s(), s(), s(), s()}
	}
	return styles{
		dim: s().Faint(true), bold: s().Bold(true), italic: s().Italic(true), bad: s().Foreground(lipgloss.Red), good: s().Foreground(lipgloss.Green),
		warn: s().Foreground(lipgloss.Yellow), accent: s().Foreground(lipgloss.Cyan), code: s().Foreground(lipgloss.Magenta), selected: s().Reverse(true),
	}
}

// paint returns a text in a style, line by line, without padding lines to one width.
func paint(s lipgloss.Style, text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if line != "" {
			lines[i] = s.Render(line)
		}
	}
	return strings.Join(lines, "\n")
}

// clean makes foreign text of several lines safe to draw; tabs are four spaces. Joined emoji fall into
// their parts, because terminals do not agree on how many cells a joined one takes.
func clean(text string) string {
	return terminal.PrintableLines(text)
}

// cut cuts a row to columns cells, with an ellipsis where something was cut.
func cut(row string, columns int) string { return ansi.Truncate(row, max(0, columns), "…") }

// wrap breaks lines into rows of at most columns cells, at spaces where there are some. A style that goes
// over several rows ends and begins again in each, because rows are printed one by one.
func wrap(text string, columns int) []string {
	if !strings.Contains(text, "\x1b") {
		return strings.Split(ansi.Wrap(text, max(1, columns), ""), "\n")
	}
	return strings.Split(lipgloss.Wrap(text, max(1, columns), ""), "\n")
}
