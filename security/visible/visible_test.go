package visible_test

import (
	"testing"

	"symbio/security/visible"
)

func TestWhatIsDrawnAsNothingIsEscapedAndDropped(t *testing.T) {
	for _, r := range []rune{0, 7, 0x1b, 0x7f, 0xa0, 0xad, 0x34f, 0x61c, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x180b, 0x180e, 0x200b, 0x200d, 0x202e, 0x2028, 0x2060, 0x2066, 0x2800, 0x3000, 0x3164, 0xfe00, 0xfeff, 0xffa0, 0x1d159, 0xe0001, 0xe0041, 0xe0100} {
		text := "a" + string(r) + "b"
		if got := visible.Line(text, 0); got != "ab" {
			t.Errorf("%U: Line is %q", r, got)
		}
		if got := visible.Escape(text); len(got) < 4 || got[1] != '\\' {
			t.Errorf("%U: Escape is %q", r, got)
		}
	}
	for _, text := range []string{"plain", "größe", "台所", "❤️", "e\u0301", "a b", "🙂"} {
		if visible.Escape(text) != text || visible.Line(text, 0) != text {
			t.Errorf("%q became %q and %q", text, visible.Escape(text), visible.Line(text, 0))
		}
	}
	if got := visible.Line("a\nüü\tb\xff", 3); got != "a ü…" && got != "a …" {
		t.Errorf("cut: %q", got)
	}
}
