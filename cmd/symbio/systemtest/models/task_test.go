//go:build system && linux

package models_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"symbio/internal/community/waittest"

	"symbio/cmd/symbio/symbiotest"

	"golang.org/x/sys/unix"
)

// tendFixtures are the answers to a task that needs everything: calls beside each other, one of them of an MCP server's
// tool, two sub-agents that read a file each, a command that waits at a gate, what a person says meanwhile, and a file
// that a person has to allow.
const tendFixtures = `{"fixtures": [
	{"match": {"userMessage": "tend the notes", "turnIndex": 0}, "response": {"content": "I look, and have them read.", "toolCalls": [
		{"name": "Glob", "arguments": {"pattern": "*.txt"}},
		{"name": "mcp__everything__echo", "arguments": {"message": "ping"}},
		{"name": "replicate_agent", "arguments": {"reason": "to read", "name": "ann", "task": "read a.txt"}},
		{"name": "replicate_agent", "arguments": {"reason": "to read", "name": "bob", "task": "read b.txt"}}]}},
	{"match": {"userMessage": "tend the notes", "turnIndex": 1}, "response": {"toolCalls": [{"name": "wait_agents", "arguments": {}}]}},
	{"match": {"userMessage": "tend the notes", "turnIndex": 2}, "response": {"toolCalls": [{"name": "Bash", "arguments": {"command": "cat gate"}}]}},
	{"match": {"userMessage": "tend the notes", "turnIndex": 3}, "response": {"content": "Nobody said how."}},
	{"match": {"userMessage": "sign it", "toolResultContains": "report.txt"}, "response": {"content": "The notes are tended, and it is signed."}},
	{"match": {"userMessage": "sign it"}, "response": {"toolCalls": [{"name": "Write", "arguments": {"file_path": "report.txt", "content": "signed"}}]}},
	{"match": {"userMessage": "read a.txt", "hasToolResult": false}, "response": {"toolCalls": [{"name": "Read", "arguments": {"file_path": "a.txt"}}]}},
	{"match": {"userMessage": "read a.txt", "hasToolResult": true}, "response": {"content": "It says hello."}},
	{"match": {"userMessage": "read b.txt", "hasToolResult": false}, "response": {"toolCalls": [{"name": "Read", "arguments": {"file_path": "b.txt"}}]}},
	{"match": {"userMessage": "read b.txt", "hasToolResult": true}, "response": {"content": "It says goodbye."}}
]}`

// TestTaskWithForeignModelAndMCPServers has a person in a terminal give that task to agents whose
// models are aimock's, over both wires: once as it should be, and then with each kind of trouble that aimock can make, in
// which case it ends with the result or with one error that says what it is.
func TestTaskWithForeignModelAndMCPServers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		flags  []string
		always bool   // no request gets through
		wire   string // of the two; "" = both
	}{
		{name: "calm"},
		{name: "latency", flags: []string{"--chaos-latency", "200", "--latency", "5"}, wire: "ANTHROPIC"},
		{name: "some drop", flags: []string{"--chaos-drop", "0.4"}, wire: "OPENAI"},
		{name: "some malformed", flags: []string{"--chaos-malformed", "0.4"}, wire: "ANTHROPIC"},
		{name: "some disconnect", flags: []string{"--chaos-disconnect", "0.4"}, wire: "OPENAI"},
		{name: "some ratelimit", flags: []string{"--chaos-ratelimit", "0.4"}, wire: "ANTHROPIC"},
		{name: "every drop", flags: []string{"--chaos-drop", "1"}, always: true, wire: "ANTHROPIC"},
		{name: "every malformed", flags: []string{"--chaos-malformed", "1"}, always: true, wire: "OPENAI"},
		{name: "every disconnect", flags: []string{"--chaos-disconnect", "1"}, always: true, wire: "ANTHROPIC"},
		{name: "every ratelimit", flags: []string{"--chaos-ratelimit", "1"}, always: true, wire: "OPENAI"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			mock := startAimock(t, tendFixtures, append(c.flags, "--chunk-size", "7")...)
			for wire, model := range map[string]string{"OPENAI": "openai:gpt-4o", "ANTHROPIC": "anthropic:claude-sonnet-4-5"} {
				if c.wire != "" && c.wire != wire {
					continue // each kind of trouble comes sometimes over one wire and always over the other; llmtest's suite has all of them
				}
				t.Run(wire, func(t *testing.T) {
					dir, env := tendHome(t, !c.always)
					env = append(env, wire+"_BASE_URL="+mock.BaseURL, wire+"_API_KEY=the-key-of-this-test")
					args := []string{"run", "--model", model, "tend the notes"}
					if c.always { // a server that says when to come back is asked as long as the budget allows
						args = append(args, "--budget", "wall=5s")
					}
					s := symbiotest.Talk(t, dir, env, args...)
					status, text := tends(s, dir)
					report, _ := os.ReadFile(filepath.Join(dir, "report.txt"))
					complaints := strings.Count(text, "symbio run: ")
					switch {
					case c.flags == nil || c.name == "latency":
						for _, want := range []string{"I look, and have them read.", "ann", "bob", "echo", "delivered: sign it", "The notes are tended, and it is signed.", "3 agents"} {
							if !strings.Contains(text, want) {
								t.Errorf("the terminal does not show %q", want)
							}
						}
						if status != 0 || string(report) != "signed" {
							t.Errorf("it ended with %d, and the report says %q:\n%s", status, report, text)
						}
					case c.always && (status == 0 || complaints != 1):
						t.Errorf("it ended with %d and %d errors, want one:\n%s", status, complaints, text)
					case status == 0 && complaints != 0, status != 0 && complaints != 1:
						t.Errorf("it ended with %d and %d errors:\n%s", status, complaints, text)
					}
				})
			}
		})
	}
}

// tendHome is a directory with what the task is about, and with the MCP server unless nothing will ever ask for it.
func tendHome(t *testing.T, asked bool) (dir string, env []string) {
	t.Helper()
	node, err := exec.LookPath("node")
	program := filepath.Join(os.Getenv(symbiotest.NPMDirectory), "node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js")
	if _, missing := os.Stat(program); err != nil || missing != nil {
		t.Skipf("it needs node, and server-everything in the node_modules of $%s: %v, %v", symbiotest.NPMDirectory, err, missing)
	}
	dir = t.TempDir()
	entries := map[string]any{}
	if asked {
		entries["everything"] = map[string]any{"command": node, "args": []string{program, "stdio"}, "sandbox": map[string]any{"preset": "off"}}
	}
	servers, err := json.Marshal(map[string]any{"mcpServers": entries})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "symbio"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"a.txt": "hello\n", "b.txt": "goodbye\n", "symbio/mcp.json": string(servers),
		"c.yaml": "directories: []\nproviders: {patience: 3s}\nskills: {enabled: false}\nsandbox: {preset: off}\npermissions: {preset: standard, allow: [replicate_agent, mcp__everything__echo, 'Bash(cat gate)']}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "gate"), 0o600); err != nil {
		t.Skipf("no pipes can be made here: %v", err)
	}
	return dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "XDG_STATE_HOME=" + symbiotest.ShortDir(t), "XDG_CONFIG_HOME=" + dir, "TERM=xterm", "NO_COLOR=1"}
}

// tends is the person, who says what is to be done when the command waits at the gate, opens it, and allows what is
// asked, until the program ends.
func tends(s *symbiotest.Screen, dir string) (status int, text string) {
	s.T.Helper()
	told, allowed := false, false
	waittest.Until(s.T, "the end of the task", func() (any, bool) {
		select {
		case err := <-s.Done:
			s.Done <- err
			return nil, true
		default:
		}
		switch shown := s.Scrolled(); {
		case !told && strings.Contains(shown, "Bash cat gate"):
			told = true
			s.Types("sign it\r")
			s.Sees(1, "> sign it")
			s.IsToBePut()
			symbiotest.OpenGate(s.T, dir)
		case !allowed && strings.Contains(shown, "y  yes, once"):
			allowed = true
			s.Types("\x1b[B\x1b[Ay") // the arrows say that the letter is an answer
		}
		return s.Shown(), false
	})
	status, _ = s.Leaves()
	return status, s.Scrolled()
}
