package demo

import (
	"bytes"
	"strings"
	"testing"

	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
)

func TestDemoResultFitsTerminal(t *testing.T) {
	stdout := new(bytes.Buffer)
	a := &command.Env{Out: stdout, OutIsTerminal: true, Getenv: func(string) string { return "" }}
	if err := (result{Summary: "140 parts. Not surveyed: " + strings.Repeat("part of it, ", 1000), Report: "/tmp/report.md"}).print(a, true); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(stdout.String(), "\n")
	if len(lines) > 24 || !strings.Contains(stdout.String(), "… the report has the rest") {
		t.Errorf("%d lines:\n%s", len(lines), stdout)
	}
	for _, line := range lines {
		if terminal.Width(line) >= 80 {
			t.Errorf("a line is too long: %q", line)
		}
	}
}
