package glob_test

import (
	"testing"

	"symbio/internal/security/permission/glob"
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
