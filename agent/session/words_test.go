package session_test

import (
	"strings"
	"testing"

	"symbio/agent/session"
)

func TestAroundShowsTheFirstOfTheWords(t *testing.T) {
	words := func(n int) string { return strings.TrimSpace(strings.Repeat("word ", n)) }
	for _, tt := range []struct{ text, words, want string }{
		{"one two three", "two", "one two three"},
		{"", "two", ""},
		{"one\ntwo", "TWO", "one two"},
		{words(8) + " here", "here", words(8) + " here"},               // 40 bytes before it
		{"a " + words(8) + " here", "here", "… " + words(7) + " here"}, // 42, cut at a blank
		{words(20) + " b here a", "a here", "… " + words(7) + " b here a"},
		{strings.Repeat("x", 160), "none", strings.Repeat("x", 160)},
		{strings.Repeat("x", 161), "none", strings.Repeat("x", 159) + "…"},
		{strings.Repeat("x", 300) + "here", "here", "…here"},
	} {
		if got := session.Around(tt.text, tt.words); got != tt.want {
			t.Errorf("%q in %.50q:\ngot  %q\nwant %q", tt.words, tt.text, got, tt.want)
		}
	}
}
