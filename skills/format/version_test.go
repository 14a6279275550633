package format_test

import (
	"strings"
	"testing"

	"symbio/skills/format"
)

func TestVersionsCompareAsSemver(t *testing.T) {
	// From old to new.
	order := []string{"", "0.0.1", "0.9", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta", "1", "1.0.1+build", "v1.2", "1.10.0", "2.0.0"}
	for i, a := range order {
		for j, b := range order {
			want := min(max(i-j, -1), 1)
			if got := format.Compare(a, b); got != want {
				t.Errorf("%q and %q: got %d, want %d", a, b, got, want)
			}
		}
	}
	for _, text := range []string{"", "one", "1.2.3.4", "1.-2", "99999999999999999999", strings.Repeat("1", 100), "1.2.3 4"} {
		if v, err := format.ParseVersion(text); err == nil || v != nil {
			t.Errorf("%q: got %v, want an error", text, v)
		}
	}
	if v, err := format.ParseVersion(" v1.2 "); err != nil || v.String() != "1.2.0" {
		t.Errorf("got %v, %v", v, err)
	}
}

func TestConstraintAllowsVersionsOfItsRange(t *testing.T) {
	for text, want := range map[string]string{
		">=1.2 <2":      "+1.2.0 +1.9.9 -1.1.9 -2.0.0 -2.0.0-beta -1.2.0-beta",
		">= 1.2, < 2":   "+1.2.0 -2.0.0",
		"^1.2":          "+1.2.0 +1.99.0 -2.0.0 -1.1.0",
		"^0.2":          "+0.2.9 -0.3.0",
		"~1.2":          "+1.2.9 -1.3.0",
		"~1.2.3":        "+1.2.9 -1.2.2 -1.3.0",
		"~1":            "+1.9.0 -2.0.0",
		"1.2":           "+1.2.0 +1.2.7 -1.3.0 -1.3.0-rc.1",
		"1":             "+1.7.0 -2.0.0",
		"=1.2.3":        "+1.2.3 +1.2.3+b -1.2.4 -1.2.4-0 -1.2.3-a",
		"=1.0.0-a":      "+1.0.0-a -1.0.0-a.0 -1.0.0",
		"<1 || >=2":     "+0.9.0 +2.0.0 -1.0.0",
		"1.x":           "+1.7.0 -2.0.0",
		"!=1.2 >1":      "+2.0.0 +3.0.0 -1.2.5 -1.9.0",
		">1.2 <=1.4":    "+1.3.0 +1.4.9 -1.2.9 -1.5.0",
		"<2.0.0-beta.2": "+2.0.0-beta.1 -2.0.0-beta.2",
		"":              "+1.0.0 +0.0.1",
	} {
		c, err := format.ParseConstraint(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		again, err := format.ParseConstraint(c.String())
		if err != nil || again.String() != c.String() {
			t.Errorf("%q is written as %q, which reads as %q, %v", text, c, again, err)
		}
		for _, v := range strings.Fields(want) {
			if got := c.Allows(v[1:]); got != (v[0] == '+') || again.Allows(v[1:]) != got {
				t.Errorf("%q and %s: got %v", text, v[1:], got)
			}
		}
		if got := c.Allows("one"); got != (text == "") {
			t.Errorf("%q and no version: got %v", text, got)
		}
	}
	for _, text := range []string{">=", "<2 >", "one", "==1", strings.Repeat(">1 ", 99)} {
		if c, err := format.ParseConstraint(text); err == nil || c.String() != "" {
			t.Errorf("%q: got %q, want an error", text, c)
		}
	}
}

func FuzzConstraint(f *testing.F) {
	for _, s := range []string{">=1.2 <2", "^0.1 !=0.1.5", "~1", "1.2.3-beta.1", ">", "=="} {
		f.Add(s, "1.2.3")
	}
	f.Fuzz(func(t *testing.T, text, version string) {
		c, err := format.ParseConstraint(text)
		if err != nil {
			return
		}
		again, err := format.ParseConstraint(c.String())
		if err != nil || again.Allows(version) != c.Allows(version) {
			t.Errorf("%q is written as %q, which means something else: %v", text, c, err)
		}
		if text != "" && c.String() != "" && c.Allows("") {
			t.Errorf("%q allows what has no version", text)
		}
	})
}
