package terminal

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestALineIsEditedByTheUsualKeys(t *testing.T) {
	for _, c := range []struct{ keys, want string }{
		{"hello", "hello|"},
		{"helo\x1b[Dl", "hell|o"},
		{"bc\x01a\x05d", "abcd|"},
		{"ab\x7f\x7f\x7fc", "c|"},
		{"one two  \x17x", "one x|"},
		{"one\x1b[D\x1b[D\x0b", "o|"},
		{"one\x1b[D\x15", "|e"},
		{"one\x1b[H\x1b[3~\x04", "|e"}, // Ctrl-D takes away where there is text
		{"a\x1b\rb", "a\nb|"},
		{"a\\\rb", "a\nb|"},
		{"a\x1b[200~b\r\tc\x1b[201~d", "ab\n\tcd|"},
		{"\t\x1b[A\x1b[5~a", "a|"}, // keys that mean nothing here
		{"日本\x1b[D語", "日語|本"},
	} {
		e := &Editor{}
		for _, key := range parseKeys([]byte(c.keys)) {
			if did := e.Press(key); did != editContinue {
				t.Errorf("%q: a key did %d", c.keys, did)
			}
		}
		if got := string(e.Text[:e.Cursor]) + "|" + string(e.Text[e.Cursor:]); got != c.want {
			t.Errorf("%q is %q, want %q", c.keys, got, c.want)
		}
	}
}

func TestKeysThatEndALine(t *testing.T) {
	for text, want := range map[string]int{"a\r": EditSubmit, "\r": EditSubmit, "a\x03": EditInterrupt, "\x04": EditEOF, "\x1b[200~\x03": EditInterrupt, "a\x04": editContinue, "\x1b[200~a\r": editContinue} {
		e, got := &Editor{}, editContinue
		for _, key := range parseKeys([]byte(text)) {
			got = e.Press(key)
		}
		if got != want {
			t.Errorf("%q did %d, want %d", text, got, want)
		}
	}
}

func TestTheRowShowsWhereTheCursorIs(t *testing.T) {
	for _, c := range []struct {
		text   string
		at     int
		row    string
		cursor int
	}{
		{"abc", 3, "> abc", 5},
		{"abc", 0, "> abc", 2},
		{"abcdefghijkl", 12, "> ghijkl", 8},
		{"abcdefghijkl", 0, "> abcdefg", 2},
		{"a\nb\tc", 5, "> a↵b c", 7},
		{"日本語日本語", 6, "> 日本語", 8},
	} {
		e := &Editor{Text: []rune(c.text), Cursor: c.at}
		if row, cursor := e.Row("> ", 10); row != c.row || cursor != c.cursor || Width(row) > 9 {
			t.Errorf("%q at %d is %q with the cursor at %d, want %q at %d", c.text, c.at, row, cursor, c.row, c.cursor)
		}
	}
}

func FuzzEditor(f *testing.F) {
	f.Add([]byte("a\x1b[200~\rb\x1b[201~\x17\x1b[D\x04"), 20)
	f.Fuzz(func(t *testing.T, data []byte, columns int) {
		e := &Editor{}
		for _, key := range parseKeys(data) {
			e.Press(key)
			if e.Cursor < 0 || e.Cursor > len(e.Text) {
				t.Fatalf("the cursor is at %d of %d", e.Cursor, len(e.Text))
			}
		}
		columns = 4 + max(0, columns)%200
		row, cursor := e.Row("> ", columns)
		if strings.ContainsAny(row, "\x1b\r\n\t") || !utf8.ValidString(row) || Width(row) >= columns || cursor >= columns {
			t.Errorf("the row is %q with the cursor at %d of %d", row, cursor, columns)
		}
	})
}
