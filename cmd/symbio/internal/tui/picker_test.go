package tui

import (
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// press returns the key press of a name, as bubbletea reports it; a text of one letter is that key.
func press(name string) tea.KeyPressMsg {
	special := map[string]tea.Key{
		"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown}, "tab": {Code: tea.KeyTab},
		"backspace": {Code: tea.KeyBackspace}, "space": {Code: tea.KeySpace, Text: " "}, "pgdown": {Code: tea.KeyPgDown}, "shift+tab": {Code: tea.KeyTab, Mod: tea.ModShift},
		"left": {Code: tea.KeyLeft}, "alt+enter": {Code: tea.KeyEnter, Mod: tea.ModAlt}, "shift+enter": {Code: tea.KeyEnter, Mod: tea.ModShift},
	}
	if k, ok := special[name]; ok {
		return tea.KeyPressMsg(k)
	}
	if rest, ok := strings.CutPrefix(name, "ctrl+"); ok {
		return tea.KeyPressMsg{Code: rune(rest[0]), Mod: tea.ModCtrl}
	}
	return tea.KeyPressMsg{Code: []rune(name)[0], Text: name}
}

func TestPickerKeepsLockedRowsAndFitsRows(t *testing.T) {
	for _, columns := range []int{1, 20, 60, 200} {
		p := &Picker{st: NewStyles(false), Rows: []PickerRow{{Name: "a", Scope: "user", On: true, WasOn: true, Text: "日本\x1b[2J"}, {Name: "b", Scope: "project", Locked: "x"}}}
		for _, key := range []string{"space", "down", "space", "b", "backspace", "ctrl+u", "tab", "esc"} {
			if p.press(press(key), 5) {
				t.Fatalf("%s ended it", key)
			}
			for _, row := range p.rows(columns, 6) {
				if ansi.StringWidth(row) > columns || strings.Contains(row, "\x1b") {
					t.Errorf("in %d columns the row %q", columns, row)
				}
			}
		}
		if p.Rows[0].On || p.Rows[1].On || p.Changed() != 1 || !p.press(press("enter"), 5) || !p.keep {
			t.Errorf("after the keys: %+v", p)
		}
	}
}
