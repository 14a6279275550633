package format_test

import (
	"testing"

	"symbio/skills/format"
)

func TestAManifestOfAProgramIsCheckedLikeAFile(t *testing.T) {
	whole := format.Manifest{Name: "my-skill", Description: "d", License: "MIT", Compatibility: "Go", Metadata: map[string]string{"v": "1.0", "null": "~"}, AllowedTools: []string{"Read", "Bash(git add *)"}}
	for _, row := range []struct {
		about  string
		change func(m *format.Manifest)
		want   string
	}{
		{"in order", func(*format.Manifest) {}, ""},
		{"no name", func(m *format.Manifest) { m.Name = "" }, "!name-missing"},
		{"another name", func(m *format.Manifest) { m.Name = "other" }, "!name-dir-mismatch"},
		{"a name that leads out", func(m *format.Manifest) { m.Name = "../x" }, "!name-bad-char"},
		{"no description", func(m *format.Manifest) { m.Description = " " }, "!description-missing"},
		{"a description that is null in YAML", func(m *format.Manifest) { m.Description = "~" }, ""},
		{"another field", func(m *format.Manifest) { m.Extra = map[string]string{"version": "1"} }, "unknown-fields"},
		{"an open parenthesis", func(m *format.Manifest) { m.AllowedTools = []string{"Bash(git"} }, "tools-unbalanced"},
		{"a whole shell", func(m *format.Manifest) { m.AllowedTools = []string{"Bash"} }, "grant-refused"},
	} {
		m := whole
		row.change(&m)
		diags := format.Validate(m, "my-skill", format.Policy{})
		if got := codes(diags); got != row.want {
			t.Errorf("%s: got %q, want %q", row.about, got, row.want)
		}
		for _, d := range diags {
			if d.Line != 0 {
				t.Errorf("%s: line %d of no file", row.about, d.Line)
			}
		}
	}
}
