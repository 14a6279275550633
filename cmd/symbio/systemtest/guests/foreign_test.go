//go:build system && linux

package guests_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"symbio/cmd/symbio/symbiotest"
)

// Programs that nobody here wrote are agents of two nodes: OpenCode and Claude Code, with a model of the test.
func TestForeignPrograms(t *testing.T) {
	bin := programs(t)
	m := symbiotest.NewStrictModel(t, obedientAnswer)
	symbiotest.RunScripts(t, "testdata/script", "BIN="+bin, "MODEL="+m.URL, "PORT="+m.URL[strings.LastIndexByte(m.URL, ':')+1:])
}

// programs returns the directory of the programs, or skips the test.
func programs(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(os.Getenv(symbiotest.NPMDirectory), "node_modules", ".bin")
	for _, program := range []string{"opencode", "claude-code-acp"} {
		if _, err := os.Stat(filepath.Join(bin, program)); err != nil {
			t.Skipf("%s is not installed in $%s: %v", program, symbiotest.NPMDirectory, err)
		}
	}
	return bin
}

// obedientAnswer makes the call that the latest message names on a line, CALL TOOL ARGS, and then repeats its result.
func obedientAnswer(history []symbiotest.ModelMessage) symbiotest.ModelAnswer {
	last := history[len(history)-1]
	for _, m := range history {
		if strings.HasPrefix(m.Text, "Generate a title") {
			return symbiotest.ModelAnswer{Text: "A title"}
		}
	}
	if len(last.Results) > 0 {
		return symbiotest.ModelAnswer{Text: "The tool said: " + last.Results[0].Text}
	}
	lines := strings.Split(strings.TrimSpace(last.Text), "\n")
	end := lines[len(lines)-1]
	if strings.Contains(last.Text, "Your program ended in the middle") {
		end = "it goes on"
	}
	if name, args, is := strings.Cut(strings.TrimPrefix(end, "CALL "), " "); is && strings.HasPrefix(end, "CALL ") {
		return symbiotest.ModelAnswer{Calls: []symbiotest.ModelCall{{ID: fmt.Sprintf("call_%d", len(history)), Name: name, Args: json.RawMessage(args)}}}
	}
	return symbiotest.ModelAnswer{Text: "I saw: " + end}
}
