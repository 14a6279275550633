package community_test

import (
	"strings"
	"testing"

	"symbio/community"
)

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestTraceIsToTheLetterOrNone(t *testing.T) {
	for name, tt := range map[string]struct{ parent, state, wantParent, wantState string }{
		"both":                   {parent, "x=y,vendor@t=0 1", parent, "x=y,vendor@t=0 1"},
		"not sampled":            {parent[:53] + "00", "", parent[:53] + "00", ""},
		"nothing":                {"", "x=y", "", ""},
		"upper case":             {strings.ToUpper(parent), "", "", ""},
		"another version":        {"01" + parent[2:], "", "", ""},
		"no version":             {"ff" + parent[2:], "", "", ""},
		"more":                   {parent + "-x", "", "", ""},
		"less":                   {parent[:54], "", "", ""},
		"no trace id":            {"00-" + strings.Repeat("0", 32) + parent[35:], "", "", ""},
		"no parent id":           {parent[:36] + strings.Repeat("0", 16) + parent[52:], "", "", ""},
		"other dashes":           {strings.ReplaceAll(parent, "-", "_"), "", "", ""},
		"no hex":                 {strings.Replace(parent, "4b", "4g", 1), "", "", ""},
		"flags of no hex":        {parent[:53] + "0x", "", "", ""},
		"a line break":           {parent[:54] + "\n", "", "", ""},
		"a state that is none":   {parent, "x", parent, ""},
		"a state with an escape": {parent, "x=\x1b[31m", parent, ""},
		"a state beyond ASCII":   {parent, "x=é", parent, ""},
		"a long state":           {parent, "x=" + strings.Repeat("y", 511), parent, ""},
		"the longest state":      {parent, "x=" + strings.Repeat("y", 510), parent, "x=" + strings.Repeat("y", 510)},
		"many states":            {parent, strings.Repeat("x=y,", 32) + "x=y", parent, ""},
	} {
		got := community.ParseTrace(tt.parent, tt.state)
		if got.Parent() != tt.wantParent || got.State() != tt.wantState {
			t.Errorf("%s: got %q %q, want %q %q", name, got.Parent(), got.State(), tt.wantParent, tt.wantState)
		}
		if want := tt.wantParent; want != "" && got.String() != want[3:35] || want == "" && got.String() != "" {
			t.Errorf("%s: its id is %q", name, got)
		}
	}
}

func FuzzParseTrace(f *testing.F) {
	f.Add(parent, "x=y")
	f.Add("", "=,=")
	f.Add(parent, "\tx=y")
	f.Fuzz(func(t *testing.T, p, s string) {
		got := community.ParseTrace(p, s)
		if got != community.ParseTrace(got.Parent(), got.State()) {
			t.Errorf("%q %q becomes another trace on the way", got.Parent(), got.State())
		}
		if n := len(got.Parent()); n != 0 && n != 55 || len(got.State()) > 512 ||
			strings.ContainsFunc(got.Parent()+got.State(), func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("got %q %q", got.Parent(), got.State())
		}
	})
}
