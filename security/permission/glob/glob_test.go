package glob_test

import (
	"testing"

	"symbio/security/permission/glob"
	"symbio/security/permission/shell"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true}, {"*", "", true}, {"a*c", "abbc", true}, {"a*c", "ab", false}, {"*.go", "x/y.go", true}, {"a", "ab", false}, {"*a*b", "xaab", true}, {"?", "x", false},
	} {
		if got := glob.Match(c.pattern, c.s); got != c.want {
			t.Errorf("Match(%q, %q) = %t", c.pattern, c.s, got)
		}
	}
}

func TestMayMatch(t *testing.T) {
	for _, c := range []struct {
		word, pattern string
		want          bool
	}{
		{"se" + string(shell.AnyName), "secret.txt", true},
		{"se" + string(shell.AnyName), "src/secret.txt", false},
		{string(shell.AnyName), ".env", false}, // the shell's * leaves out names with a dot
		{string(shell.Any), ".env", true},
		{"a" + string(shell.AnyRune) + "c", "a*", true},
	} {
		if got := glob.MayMatch(c.word, c.pattern); got != c.want {
			t.Errorf("MayMatch(%q, %q) = %t", c.word, c.pattern, got)
		}
	}
}
