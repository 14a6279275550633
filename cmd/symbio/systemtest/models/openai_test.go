//go:build system && linux

package models_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"symbio/cmd/symbio/symbiotest"
)

// TestTaskRunsAgainstForeignModelServer is `symbio run --model openai:X` with
// OPENAI_BASE_URL set: the model asks for a tool, gets its result, and answers.
func TestTaskRunsAgainstForeignModelServer(t *testing.T) {
	t.Parallel()
	mock := startAimock(t, `{"fixtures": [
		{"match": {"userMessage": "how many notes", "hasToolResult": false}, "response": {"toolCalls": [{"name": "Glob", "arguments": {"pattern": "*.txt"}}]}},
		{"match": {"userMessage": "how many notes", "hasToolResult": true}, "response": {"content": "There are two notes."}}
	]}`)
	dir := t.TempDir()
	for _, name := range []string{"a.txt", "b.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const key = "sk-test-0123456789"
	cmd := exec.CommandContext(t.Context(), "symbio", "run", "--json", "--no-mdns", "--model", "openai:gpt-x", "how many notes are there?")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+symbiotest.ShortDir(t), "XDG_CONFIG_HOME="+dir, "OPENAI_BASE_URL="+mock.BaseURL, "OPENAI_API_KEY="+key)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, complaint.String())
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	var result struct{ Type, Text, Status string }
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &result); err != nil || result.Type != "result" || result.Status != "done" || result.Text != "There are two notes." {
		t.Errorf("last line = %s, %v; want the server's answer, done", lines[len(lines)-1], err)
	}
	journal := mock.Journal()
	if len(journal) != 2 {
		t.Fatalf("the server got %d requests, want 2", len(journal))
	}
	last := journal[1].Body
	if !last.Stream || last.Model != "gpt-x" || len(last.Tools) == 0 {
		t.Errorf("request = model %s, stream %v, %d tools", last.Model, last.Stream, len(last.Tools))
	}
	if got := string(last.Messages[len(last.Messages)-1]); !strings.Contains(got, "a.txt") || !strings.Contains(got, `"tool"`) {
		t.Errorf("last message = %s, want the result of Glob", got)
	}
	if all := string(out) + complaint.String(); strings.Contains(all, key) {
		t.Error("the key was printed")
	}
}
