//go:build system && linux

package models_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"symbio/cmd/symbio/symbiotest"
)

// TestTaskIsRecordedAndReplayed runs a task over both wires against a server that nobody here wrote, with calls
// beside each other and a sub-agent, and then once more without a server and a key.
func TestTaskIsRecordedAndReplayed(t *testing.T) {
	t.Parallel()
	mock := startAimock(t, `{"fixtures": [
		{"match": {"userMessage": "count the notes", "turnIndex": 0}, "response": {"toolCalls": [
			{"name": "Glob", "arguments": {"pattern": "*.txt"}}, {"name": "Glob", "arguments": {"pattern": "*.md"}}, {"name": "replicate_agent", "arguments": {"reason": "to read", "name": "reader"}}]}},
		{"match": {"userMessage": "count the notes", "turnIndex": 1}, "response": {"toolCalls": [{"name": "send_signal", "arguments": {"member": "reader", "perception": "task", "data": "read a.txt"}}]}},
		{"match": {"userMessage": "count the notes", "turnIndex": 2}, "response": {"content": "There are two notes, and one says hello."}},
		{"match": {"userMessage": "read a.txt", "hasToolResult": false}, "response": {"toolCalls": [{"name": "Read", "arguments": {"file_path": "a.txt"}}]}},
		{"match": {"userMessage": "read a.txt", "hasToolResult": true}, "response": {"content": "It says hello."}}
	]}`)
	const key = "the-key-of-this-test"
	const want = "There are two notes, and one says hello.\n"
	for _, c := range []struct{ model, env, path string }{
		{"openai:gpt-4o", "OPENAI", "/chat/completions\n"},
		{"anthropic:claude-sonnet-4-5", "ANTHROPIC", "/messages\n"},
	} {
		t.Run(c.env, func(t *testing.T) {
			dir, recording := t.TempDir(), filepath.Join(t.TempDir(), "recording")
			for name, text := range map[string]string{"a.txt": "hello\n", "b.txt": "bye\n"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			run := func(env []string, args ...string) (out, complaint string, err error) {
				cmd := exec.CommandContext(t.Context(), "symbio", append([]string{"run", "--no-mdns", "--yes-to", "replicate_agent", "--yes-to", "send_signal"}, args...)...)
				cmd.Dir = dir
				cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "GORACE=" + os.Getenv("GORACE"), "HOME=" + dir, "XDG_STATE_HOME=" + symbiotest.ShortDir(t), "XDG_CONFIG_HOME=" + dir}, env...)
				var said, told strings.Builder
				cmd.Stdout, cmd.Stderr = &said, &told
				err = cmd.Run()
				return said.String(), told.String(), err
			}
			out, told, err := run([]string{c.env + "_BASE_URL=" + mock.BaseURL, c.env + "_API_KEY=" + key}, "--model", c.model, "--record", recording, "count the notes")
			if err != nil || out != want || !strings.Contains(told, "5 exchanges with the model's server recorded in") {
				t.Fatalf("%v\n%s%s", err, out, told)
			}
			text, err := os.ReadFile(filepath.Join(recording, "exchanges.yaml"))
			if err != nil || strings.Contains(string(text), key) || strings.Count(string(text), c.path) != 5 {
				t.Errorf("%v, or the key is in it, or not 5 exchanges:\n%s", err, text)
			}
			asked := len(mock.Journal())
			out, told, err = run(nil, "--replay", recording, "count the notes")
			if err != nil || out != want || strings.Contains(told, "note:") || len(mock.Journal()) != asked {
				t.Errorf("played: %v\n%s%s", err, out, told)
			}
			if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("goodbye\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			_, told, err = run(nil, "--replay", recording, "count the notes")
			if err == nil || !strings.Contains(told, `goodbye`) || !strings.Contains(told, "no answer fits the request") {
				t.Errorf("with another file: %v\n%s", err, told)
			}
		})
	}
}
