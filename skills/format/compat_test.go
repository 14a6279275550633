package format_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/skills/format"
)

func TestFieldsOfOtherProgramsAreRead(t *testing.T) {
	for front, want := range map[string]format.Compat{
		"context: fork\nagent: Explore\nmodel: openai:x\neffort: high\nargument-hint: \"[file]\\n\\u202e[mode]\"": {ArgumentHint: `[file] \u202e[mode]`, Fork: true, Agent: "Explore", Model: "openai:x", Effort: "high"},
		"context: none\nmodel: inherit\neffort: max":                                                              {},
		"argument-hint: [a, b]":              {ArgumentHint: "[a, b]"},
		"agent: " + strings.Repeat("x", 300): {Agent: strings.Repeat("x", 199) + "…"},
	} {
		m, _, diags := format.Parse([]byte("---\nname: a\ndescription: d\n"+front+"\n---\n"), "a", format.Policy{})
		if format.Failed(diags) {
			t.Errorf("%s: %v", front, diags)
		}
		if d := cmp.Diff(want, m.Compat); d != "" {
			t.Errorf("%s (-want +got):\n%s", front, d)
		}
	}
}

func TestForeignSaysWhatBecomesOfFields(t *testing.T) {
	for front, want := range map[string]string{
		"hooks: {a: b}": "hooks", "context: fork\nmodel: x": "", "model: x": "model", "context: x": "context", "effort: low": "effort",
		"context: fork\neffort: max": "effort", "paths: x\nglobs: y": "globs paths", "argument-hint: x": "", "mine: x": "",
	} {
		m, _, _ := format.Parse([]byte("---\nname: a\ndescription: d\n"+front+"\n---\n"), "a", format.Policy{})
		var got []string
		for _, d := range format.Foreign(m) {
			got = append(got, d.Field)
			if d.Code != format.CodeForeignField || d.Severity != format.Note || d.Message == "" {
				t.Errorf("%s: %+v", front, d)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, want %q", front, got, want)
		}
	}
}
