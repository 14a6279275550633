package terminal

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestKeysAreWhatTerminalsSend(t *testing.T) {
	for text, want := range map[string][]rune{
		"":                    nil,
		"ab":                  {'a', 'b'},
		"\x1b":                {keyEscape},
		"\x1b[A\x1b[B":        {keyUp, keyDown},
		"\x1bOA":              {keyUp},
		"\x1b[1;5C x":         {' ', 'x'}, // an unknown one is nothing
		"\x1b[200~p\x1b[201~": {keyPasteStart, 'p', keyPasteEnd},
		"\x1b[99~p":           {'p'},
		"\x1ba":               nil,
		"\x1b[":               nil,
		"ä日":                  {'ä', '日'},
		"\xff\x00\x07":        nil,
		"\x7f\r\t\x03":        {keyBackspace, keyEnter, keyTab, keyInterrupt},
		"\uE000":              nil, // no keyboard sends what stands for keys here
	} {
		if got := parseKeys([]byte(text)); !slices.Equal(got, want) {
			t.Errorf("%q is %U, want %U", text, got, want)
		}
	}
}

func TestKeyReaderWaitsForRestOfSequence(t *testing.T) {
	for text, want := range map[string]int{"": -1, "a": -1, "a\x1b": 1, "\x1b[": 0, "\x1b[A": -1, "a\xe6\x97": 1, "日": -1, "x\xc3": 1, "a\x1b[20": 1, "\x1b[200~": -1, "\x1ba": -1} {
		if got := unfinished([]byte(text)); got != want {
			t.Errorf("%q waits from %d, want %d", text, got, want)
		}
	}
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte("\x1b[1;5Cab\x1b"), 40, 10)
	f.Fuzz(func(t *testing.T, data []byte, columns, lines int) {
		p := &Picker{Rows: []PickerRow{{Name: "a", Scope: "user", On: true, WasOn: true, Text: "日本\x1b[2J"}, {Name: "b", Scope: "project", Locked: "x"}}}
		for _, k := range parseKeys(data) {
			p.press(k, 5)
		}
		for _, line := range p.view(max(1, columns%300), max(1, lines%100), false) {
			if strings.ContainsRune(line, 0x1b) || !utf8.ValidString(line) {
				t.Errorf("a line moves the cursor: %q", line)
			}
		}
		if p.Rows[1].On {
			t.Error("what is locked was switched on")
		}
	})
}

func TestFitCountsWideCharacters(t *testing.T) {
	for text, want := range map[string]string{"abcdef": "abcd", "日本語": "日本", "a日本": "a日", "ab": "ab", "": "", "a\x1b[31mb": "a[31"} {
		if got := Fit(text, 5); got != want {
			t.Errorf("%q fits as %q, want %q", text, got, want)
		}
	}
}
