package lint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"symbio/internal/skills/lint"
	"symbio/skills/format"
)

const good = "description: Greets a person by name. Use it when asked to greet.\n"

func write(t *testing.T, dir, name, text string, mode os.FileMode) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func TestCheckSaysWhatAuthorsShouldChange(t *testing.T) {
	for _, test := range []struct{ front, body, want string }{
		{good, "Do it.", ""},
		{"description: Greets.\n", "", "description-vague:3"},
		{"description: Greets all people in the house by their names.\n", "", "description-vague:3"},
		{"description: 把脉\n", "", ""},
		{good + "allowed-tools: Read Raed Bash(git log:*) mcp__a__b *\n", "", "unknown-tool:4"},
		{good + "hooks: {a: b}\nmodel: x\n", "", "foreign-field:4 foreign-field:5"},
		{good, strings.Repeat("word ", 5001), "body-too-long:5"},
		{good, "See [this](references/no.md#a), [that](references/yes.md), [web](https://x.org/a.md) and [up](#top).\n\n`scripts/no.sh`", "file-missing:5 file-missing:7"},
		{good, "Run ${CLAUDE_SKILL_DIR}/scripts/no.py, ./scripts/no.py and ${CLAUDE_PLUGIN_ROOT}/scripts/other.py, not src/scripts/x.py.", "file-missing:5"},
		{good, "See [out](../../etc/passwd) and [link](references/out).", "file-missing:5 file-missing:5"},
	} {
		dir := filepath.Join(t.TempDir(), "greet")
		write(t, dir, "SKILL.md", "---\nname: greet\n"+test.front+"---\n"+test.body, 0o600)
		write(t, dir, "references/yes.md", "x", 0o600)
		if err := os.Symlink("/etc/passwd", filepath.Join(dir, "references/out")); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range lint.Check(dir, lint.Config{Tools: []string{"Read", "Bash"}, Tokens: func(s string) int { return len(s) / 5 }}) {
			got = append(got, fmt.Sprintf("%s:%d", d.Code, d.Line))
			if d.Severity == format.Error {
				t.Errorf("%q: an error: %v", test.body, d)
			}
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%q %.40q: got %v, want %q", test.front, test.body, got, test.want)
		}
	}
}

func TestCheckSuggestsTool(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "greet")
	write(t, dir, "SKILL.md", "---\nname: greet\n"+good+"allowed-tools: Raed\n---\n", 0o600)
	found := lint.Check(dir, lint.Config{Tools: []string{"Read", "Bash"}})
	if len(found) != 1 || !strings.Contains(found[0].Message, `did you mean "Read"?`) {
		t.Errorf("got %v", found)
	}
}

func TestCheckLooksAtScripts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "greet")
	write(t, dir, "SKILL.md", "---\nname: greet\n"+good+"---\n", 0o600)
	for name, script := range map[string]struct {
		text string
		mode os.FileMode
	}{
		"good.sh": {"#!/bin/sh\n", 0o700}, "bit.sh": {"#!/bin/sh\n", 0o600}, "line.sh": {"echo\n", 0o600}, "both.py": {"x\n", 0o700}, "module.py": {"x\n", 0o600},
		"program": {"\x7fELF", 0o700}, "empty.sh": {"", 0o700}, "data.csv": {"x", 0o700}, "README": {"x", 0o600},
	} {
		write(t, dir, "scripts/"+name, script.text, script.mode)
	}
	got := map[string]bool{}
	for _, d := range lint.Check(dir, lint.Config{}) {
		name, _, _ := strings.Cut(strings.TrimPrefix(d.Message, "scripts/"), " ")
		got[name+" "+string(d.Code)] = true
	}
	for _, want := range []string{"bit.sh script-not-executable", "line.sh script-without-interpreter",
		"both.py script-without-interpreter", "empty.sh script-without-interpreter"} {
		if !got[want] {
			t.Errorf("not found: %s", want)
		}
		delete(got, want)
	}
	if len(got) != 0 {
		t.Errorf("also found: %v", got)
	}
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte("---\nname: greet\n" + good + "---\n[a](b) scripts/x.sh"))
	f.Add([]byte("---\nname: greet\ndescription: d\nhooks: x\n---\n](<"))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := filepath.Join(t.TempDir(), "greet")
		write(t, dir, "SKILL.md", string(text), 0o600)
		lines := strings.Count(string(text), "\n") + 1
		for _, d := range lint.Check(dir, lint.Config{Tools: []string{"Read"}}) {
			if d.Line < 0 || d.Line > lines || d.Message == "" {
				t.Errorf("%+v in %d lines", d, lines)
			}
		}
	})
}
