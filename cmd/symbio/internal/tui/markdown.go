package tui

import "strings"

// markdown returns a block of Markdown as rows.
func (m *model) markdown(block string) string {
	return strings.Join(wrap(clean(block), m.width-1), "\n") + "\n"
}
