package community_test

import (
	"slices"
	"testing"

	"symbio/community"
)

func TestUsualPerceptionIsTheOnlyOneBesideTheKind(t *testing.T) {
	for _, test := range []struct {
		accepts []string
		kind    string
		want    string
	}{
		{nil, "", ""}, {[]string{"task"}, "", "task"}, {[]string{"task", "work"}, "", ""}, {[]string{"reviewer"}, "reviewer", "reviewer"},
		{[]string{"reviewer", "task"}, "reviewer", "task"}, {[]string{"reviewer", "task"}, "", ""}, {[]string{"reviewer", "task", "work"}, "reviewer", ""},
		{[]string{"task", "work"}, "reviewer", ""},
	} {
		m := community.Member{Accepts: test.accepts}
		if test.kind != "" {
			m.Metadata = map[string]string{community.DefinitionKey: test.kind}
		}
		if got, ok := m.DefaultPerception(); got != test.want || ok != (test.want != "") {
			t.Errorf("of %v, kind %q: got %q, %v, want %q", test.accepts, test.kind, got, ok, test.want)
		}
		if slices.Contains(m.Accepts, "") {
			t.Errorf("it wrote to %v", m.Accepts)
		}
	}
}
