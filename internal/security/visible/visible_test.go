package visible_test

import (
	"testing"

	"symbio/internal/security/visible"
)

func TestInvisibleRunesAreEscapedOrDropped(t *testing.T) {
	for _, r := range []rune{0, 7, 0x1b, 0x7f, 0xa0, 0xad, 0x34f, 0x61c, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x180b, 0x180e, 0x200b, 0x200d,
		0x202e, 0x2028, 0x2060, 0x2066, 0x2800, 0x3000, 0x3164, 0xfe00, 0xfeff, 0xffa0, 0x1d159, 0xe0001, 0xe0041, 0xe0100} {
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

func TestTextIsCutBetweenCharacters(t *testing.T) {
	for _, c := range []struct {
		text                     string
		max                      int
		prefix, truncated, runes string
	}{
		{"", 0, "", "", ""},
		{"abc", 3, "abc", "abc", "abc"},
		{"abcd", 3, "abc", "abc…", "ab…"},
		{"aüü", 4, "aü", "aü…", "aüü"},
		{"台所台所", 3, "台", "台…", "台所…"},
		{"🙂", 3, "", "…", "🙂"},
		{"ab", 1, "a", "a…", "…"},
		{"ab", 0, "", "…", "…"},
		{"\x80\x80\x80\x80\x80\x80", 5, "\x80\x80\x80\x80\x80", "\x80\x80\x80\x80\x80…", "\x80\x80\x80\x80…"},
	} {
		if got := visible.Prefix(c.text, c.max); got != c.prefix {
			t.Errorf("Prefix(%q, %d) = %q, want %q", c.text, c.max, got, c.prefix)
		}
		if got := visible.Prefix([]byte(c.text), c.max); string(got) != c.prefix {
			t.Errorf("Prefix of the bytes of %q, %d = %q, want %q", c.text, c.max, got, c.prefix)
		}
		if got := visible.Truncate(c.text, c.max); got != c.truncated {
			t.Errorf("Truncate(%q, %d) = %q, want %q", c.text, c.max, got, c.truncated)
		}
		if got := visible.TruncateRunes(c.text, c.max); got != c.runes {
			t.Errorf("TruncateRunes(%q, %d) = %q, want %q", c.text, c.max, got, c.runes)
		}
	}
}

func TestSuffixIsCutBetweenCharacters(t *testing.T) {
	for _, c := range []struct {
		text string
		max  int
		want string
	}{{"", 3, ""}, {"abc", 3, "abc"}, {"abcd", 3, "bcd"}, {"üü", 3, "ü"}, {"a🙂", 3, ""}, {"ab", 0, ""}} {
		if got := visible.Suffix(c.text, c.max); got != c.want {
			t.Errorf("Suffix(%q, %d) = %q, want %q", c.text, c.max, got, c.want)
		}
	}
}

func TestSuggest(t *testing.T) {
	known := []string{"Write", "Read", "WebFetch", "openai"}
	for name, want := range map[string]string{
		"Wriet":   `; did you mean "Write"?`, // two letters swapped
		"read":    `; did you mean "Read"?`,
		"opanai":  `; did you mean "openai"?`,
		"Web":     `; did you mean "WebFetch"?`, // the only one that begins so
		"deploys": "",
		"":        "",
	} {
		if got := visible.Suggest(name, known); got != want {
			t.Errorf("Suggest(%q) = %q, want %q", name, got, want)
		}
	}
	if got := visible.Suggest("anything", nil); got != "" {
		t.Errorf("without names: %q", got)
	}
}
