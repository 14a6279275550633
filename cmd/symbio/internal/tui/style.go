package tui

import (
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"symbio/cmd/symbio/internal/terminal"
)

// Styles are the looks of the parts of the screen. The colors are those 16 that the person has chosen
// for the terminal, so that they can be read on light and dark grounds. Without color all are plain.
type Styles struct {
	Dim, Bold, Italic, Bad, Good, Warn, Accent, Code, Selected lipgloss.Style
}

// NewStyles returns the styles of a terminal with colors, or without.
func NewStyles(color bool) Styles {
	s := lipgloss.NewStyle
	if !color {
		return Styles{s(), s(), s(), s(), s(), s(), s(), s(), s()}
	}
	return Styles{
		Dim: s().Faint(true), Bold: s().Bold(true), Italic: s().Italic(true), Bad: s().Foreground(lipgloss.Red), Good: s().Foreground(lipgloss.Green),
		Warn: s().Foreground(lipgloss.Yellow), Accent: s().Foreground(lipgloss.Cyan), Code: s().Foreground(lipgloss.Magenta), Selected: s().Reverse(true),
	}
}

// Paint returns a text in a style, line by line, without padding lines to one width.
func Paint(s lipgloss.Style, text string) string {
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
func clean(text string) string { return terminal.PrintableLines(text) }

// Cut cuts a row to columns cells, with an ellipsis where something was cut.
func Cut(row string, columns int) string { return ansi.Truncate(row, max(0, columns), "…") }

// Wrap breaks lines into rows of at most columns cells, at spaces where there are some. A style that goes
// over several rows ends and begins again in each, because rows are printed one by one.
func Wrap(text string, columns int) []string {
	if !strings.Contains(text, "\x1b") {
		return strings.Split(ansi.Wrap(text, max(1, columns), ""), "\n")
	}
	return strings.Split(lipgloss.Wrap(text, max(1, columns), ""), "\n")
}

// OneLine makes foreign text fit for one row.
func OneLine(text string) string { return clean(strings.ReplaceAll(text, "\n", " ")) }

// Pad cuts text to so many columns or fills it up with spaces.
func Pad(text string, columns int) string {
	text = Cut(OneLine(text), columns)
	return text + strings.Repeat(" ", columns-ansi.StringWidth(text))
}
