//go:build system && linux

package editor_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"symbio/cmd/symbio/symbiotest"
	"symbio/internal/community/waittest"
)

// talkScript is a model for these tests. Its `cat gate` ends when the test opens the pipe.
const talkScript = `
name: talk
turns:
- match: {user: '^write', turn: 0}
  text: "I write. "
  calls:
  - {tool: Plan, args: {steps: [{text: write it down, state: running}]}}
  - {tool: Write, args: {file_path: notes.txt, content: "2\n"}}
- match: {user: '^write', turn: 1}
  text: 'Written? {{result}}'
- match: {user: '^wait', turn: 0}
  calls:
  - {tool: Bash, args: {command: 'cat gate'}}
- text: 'You said: {{user}}'
`

const config = "model: scripted:talk.yaml\ndirectories: []\nskills: {enabled: false}\nsandbox: {preset: off}\n" +
	"permissions: {preset: standard, allow: ['Bash(cat gate)']}\ndiscovery: {mdns: false}\n"

// home makes a directory with that model, a configuration and a gate, and returns it with its environment.
func home(t *testing.T) (dir string, env []string) {
	t.Helper()
	dir, state := t.TempDir(), symbiotest.ShortDir(t)
	for name, text := range map[string]string{"talk.yaml": talkScript, "c.yaml": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "gate"), 0o600); err != nil {
		t.Skipf("no pipes can be made here: %v", err)
	}
	return dir, append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+state, "XDG_CONFIG_HOME="+dir)
}

// installed returns a file of an npm package that the tests run.
func installed(t *testing.T, file string) string {
	t.Helper()
	path := filepath.Join(os.Getenv(symbiotest.NPMDirectory), "node_modules", file)
	if _, err := os.Stat(path); err != nil || os.Getenv(symbiotest.NPMDirectory) == "" {
		t.Skipf("%s is not installed in $%s: %v", file, symbiotest.NPMDirectory, err)
	}
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip(err)
	}
	return path
}

// line is what the editor prints: an update, a question, or the answer to a request.
type line struct {
	ID     int
	Update struct {
		SessionUpdate, Title string
		Content              json.RawMessage
	}
	Asked  *json.RawMessage
	Result json.RawMessage
	Error  *struct{ Message string }
	text   string
}

// editor is an editor by the TypeScript SDK, which has started symbio acp.
type editor struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan line
	id    int
	seen  []string // the lines before the latest answer
	said  string   // what the agent said in these
}

// open starts an editor.
func open(t *testing.T, dir string, env []string, args ...string) *editor {
	t.Helper()
	sdk := installed(t, "@agentclientprotocol/sdk/dist/v1/stable/acp.js")
	script, err := filepath.Abs("testdata/client.mjs")
	if err != nil {
		t.Fatal(err)
	}
	e := &editor{t: t, cmd: exec.Command("node", append([]string{script, sdk, "acp"}, args...)...), lines: make(chan line, 1024)}
	e.cmd.Dir, e.cmd.Env, e.cmd.Stderr = dir, env, os.Stderr
	e.in, err = e.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(e.lines)
		s := bufio.NewScanner(out)
		for s.Buffer(nil, 1<<24); s.Scan(); {
			l := line{text: s.Text()}
			_ = json.Unmarshal(s.Bytes(), &l)
			e.lines <- l
		}
	}()
	t.Cleanup(func() { e.in.Close(); <-read; e.cmd.Wait() })
	return e
}

// writes writes a line to the editor.
func (e *editor) writes(line map[string]any) {
	e.t.Helper()
	text, err := json.Marshal(line)
	if err == nil {
		_, err = e.in.Write(append(text, '\n'))
	}
	if err != nil {
		e.t.Fatal(err)
	}
}

// sends sends a request and returns its id.
func (e *editor) sends(method string, params map[string]any) int {
	e.t.Helper()
	e.id++
	e.writes(map[string]any{"id": e.id, "method": method, "params": params})
	return e.id
}

// until returns the first line that fits; those before it are in seen.
func (e *editor) until(what string, fits func(line) bool) line {
	e.t.Helper()
	for e.seen, e.said = nil, ""; ; {
		l := waittest.Receive(e.t, what, e.lines)
		if fits(l) {
			return l
		}
		if l.text == "" {
			e.t.Fatalf("the editor ended before: %s", what)
		}
		e.seen = append(e.seen, l.text)
		if l.Update.SessionUpdate == "agent_message_chunk" {
			var part struct{ Text string }
			if err := json.Unmarshal(l.Update.Content, &part); err != nil {
				e.t.Fatal(err)
			}
			e.said += part.Text
		}
	}
}

// answered waits for the answer to a request.
func (e *editor) answered(id int) line {
	e.t.Helper()
	return e.until(fmt.Sprintf("the answer to request %d", id), func(l line) bool { return l.ID == id })
}

// calls sends a request and waits for its result.
func (e *editor) calls(method string, params map[string]any, result any) {
	e.t.Helper()
	l := e.answered(e.sends(method, params))
	if l.Error != nil {
		e.t.Fatalf("%s: %s", method, l.Error.Message)
	}
	if err := json.Unmarshal(l.Result, result); err != nil {
		e.t.Fatalf("%s: %v: %s", method, err, l.text)
	}
}

// session begins a session in dir.
func (e *editor) session(dir string) (id string) {
	e.t.Helper()
	var there struct{ AgentCapabilities struct{ LoadSession bool } }
	e.calls("initialize", map[string]any{"protocolVersion": 1, "clientCapabilities": map[string]any{}}, &there)
	var begun struct{ SessionID string }
	e.calls("session/new", map[string]any{"cwd": dir, "mcpServers": []any{}}, &begun)
	if !there.AgentCapabilities.LoadSession || begun.SessionID == "" {
		e.t.Fatalf("got %+v, %+v", there, begun)
	}
	return begun.SessionID
}

// prompts sends a prompt.
func (e *editor) prompts(session, text string) int {
	e.t.Helper()
	return e.sends("session/prompt", map[string]any{"sessionId": session, "prompt": []any{map[string]any{"type": "text", "text": text}}})
}

// saw reports whether lines before the latest answer have all of the parts.
func (e *editor) saw(parts ...string) {
	e.t.Helper()
	if !slices.ContainsFunc(e.seen, func(l string) bool {
		return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(l, p) })
	}) {
		e.t.Errorf("no line has %q:\n%s", parts, strings.Join(e.seen, "\n"))
	}
}

func TestEditorOfTypeScriptSDK(t *testing.T) {
	t.Parallel()
	dir, env := home(t)
	e := open(t, dir, env, "--config", "c.yaml")
	id := e.session(dir)
	e.writes(map[string]any{"answer": "once"})
	prompt := e.prompts(id, "write it down")
	l := e.answered(prompt)
	if !strings.Contains(l.text, `"stopReason":"end_turn"`) {
		t.Errorf("the prompt ended with %s", l.text)
	}
	if want := "I write. Written? The plan is shown"; !strings.HasPrefix(e.said, want) {
		t.Errorf("the agent said %q, want %q", e.said, want)
	}
	e.saw(`"plan"`, `"write it down"`, `"in_progress"`)
	e.saw(`"tool_call"`, `"kind":"edit"`, `"path":"`+dir+`/notes.txt"`)
	e.saw(`"asked"`, `"newText":"2\n"`, `"allow_once"`, `"reject_once"`)
	e.saw(`"tool_call_update"`, `"completed"`)
	if text, err := os.ReadFile(filepath.Join(dir, "notes.txt")); err != nil || string(text) != "2\n" {
		t.Errorf("notes.txt has %q, %v", text, err)
	}
	e.writes(map[string]any{"answer": "no"})
	e.answered(e.prompts(id, "write it again"))
	e.saw(`"tool_call_update"`, `"failed"`)

	prompt = e.prompts(id, "wait")
	e.until("the call that waits", func(l line) bool { return l.Update.Title == "Bash cat gate" })
	e.writes(map[string]any{"method": "session/cancel", "params": map[string]any{"sessionId": id}})
	if l := e.answered(prompt); !strings.Contains(l.text, `"stopReason":"cancelled"`) {
		t.Errorf("the prompt ended with %s", l.text)
	}
	e.calls("session/set_mode", map[string]any{"sessionId": id, "modeId": "plan"}, &struct{}{})
	e.saw(`"current_mode_update"`, `"plan"`)

	again := open(t, dir, env, "--config", "c.yaml") // another one while the node of the first has the session
	again.calls("initialize", map[string]any{"protocolVersion": 1}, &struct{}{})
	var list struct {
		Sessions []struct{ SessionID, Title, Cwd string }
	}
	again.calls("session/list", map[string]any{"cwd": dir}, &list)
	if len(list.Sessions) != 1 || list.Sessions[0].SessionID != id || list.Sessions[0].Title != "write it down" || list.Sessions[0].Cwd != dir {
		t.Fatalf("the sessions are %+v", list)
	}
	e.calls("session/close", map[string]any{"sessionId": id}, &struct{}{})
	again.calls("session/load", map[string]any{"sessionId": id, "cwd": dir, "mcpServers": []any{}}, &struct{}{})
	again.saw(`"user_message_chunk"`, "write it down")
	again.saw(`"agent_message_chunk"`, "I write.")
	again.saw(`"tool_call"`, `"newText":"2\n"`)
	again.saw(`"tool_call_update"`, `"failed"`)
	again.answered(again.prompts(id, "and now?"))
	if !strings.HasSuffix(again.said, "and now?") {
		t.Errorf("the agent said %q", again.said)
	}
	if l := again.answered(again.prompts("none", "x")); l.Error == nil || !strings.Contains(l.Error.Message, "no session") {
		t.Errorf("a prompt in a session that is not there: %s", l.text)
	}
}

// other is the configuration of node b, which lends the agent worker to node a.
const other = `
node: {name: b}
workspace: there
agents: agents
model: scripted:b-model.yaml
discovery: {mdns: false}
permissions: {preset: none, default: deny, allow: [Read, Edit]}
capabilities: [{name: agents.spawn, agents: [worker]}]
authorize: [{from: local, invoke: [agents.spawn]}]
`

const otherModel = `
name: b
turns:
- match: {user: '^mend', turn: 0}
  calls:
  - {tool: Read, args: {file_path: sum.sh}}
- match: {user: '^mend', turn: 1}
  calls:
  - {tool: Edit, args: {file_path: sum.sh, old_string: 'echo 5', new_string: 'echo 6'}}
- match: {user: '^mend', turn: 2}
  text: It is mended.
- match: {user: '^hang'}
  text: I am slow.
  stall: 600s
- text: 'You said: {{user}}'
`

// An agent of another node works on a copy of the editor's directory. When that node is killed, the prompt ends with one error.
func TestEditorWithAgentOfOtherNode(t *testing.T) {
	t.Parallel()
	dir, env := home(t)
	repo := filepath.Join(dir, "repo")
	for name, text := range map[string]string{"b.yaml": other, "b-model.yaml": otherModel, "there/x": "", "repo/sum.sh": "echo 5\n",
		"agents/worker.md": "---\nname: worker\ndescription: Mends.\n---\nYou mend.\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	up := func(name string, args ...string) *symbiotest.Process {
		cmd := exec.Command("symbio", append([]string{"up", "--json", "--name", name}, args...)...)
		cmd.Dir, cmd.Env = dir, env
		p := symbiotest.Started(t, cmd)
		p.Expect(t, "it is ready", func(l symbiotest.Line) bool { return l.Type == "ready" })
		return p
	}
	at := symbiotest.FreeAddress(t)
	b := up("b", "--config", "b.yaml", "--listen", at)
	up("a", "--config", "c.yaml", "--peer", at)
	waittest.Until(t, "node a to see the agents of b", func() (any, bool) {
		cmd := exec.Command("symbio", "members", "--node", "a", "--json")
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		return string(out), err == nil && strings.Contains(string(out), "agents.workspace")
	})
	e := open(t, repo, env, "--node", "a", "--on", "b", "--agent", "worker")
	id := e.session(repo)
	e.writes(map[string]any{"answer": "once"})
	if l := e.answered(e.prompts(id, "mend it")); !strings.Contains(l.text, "end_turn") || e.said != "It is mended." {
		t.Errorf("the prompt ended with %s after %q", l.text, e.said)
	}
	e.saw("worker works on node b", "in a copy of "+repo)
	e.saw(`"tool_call"`, `"title":"Edit sum.sh"`, `"path":"`+repo+`/sum.sh"`)
	e.saw(`"asked"`, "Make these changes in "+repo, `"newText":"echo 6\n"`)
	if text, err := os.ReadFile(filepath.Join(repo, "sum.sh")); err != nil || string(text) != "echo 6\n" {
		t.Errorf("sum.sh has %q, %v\n%s", text, err, strings.Join(e.seen, "\n"))
	}
	prompt := e.prompts(id, "hang")
	for range 2 { // it has begun this task, too
		b.Expect(t, "a task", func(l symbiotest.Line) bool { return l.Type == "task" })
	}
	if err := b.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if l := e.answered(prompt); l.Error == nil || strings.Count(l.Error.Message, "the agent is gone") != 1 || !strings.Contains(l.Error.Message, "node b") {
		t.Errorf("the prompt ended with %s", l.text)
	}
	if l := e.answered(e.prompts(id, "and now?")); l.Error == nil {
		t.Errorf("the next prompt ended with %s", l.text)
	} else {
		t.Log(l.Error.Message)
	}
}

// A node that is killed ends the prompt with one error, and when it is back the session goes on.
func TestEditorIsToldThatNodeIsGone(t *testing.T) {
	t.Parallel()
	dir, env := home(t)
	up := func() *symbiotest.Process {
		cmd := exec.Command("symbio", "up", "--json", "--name", "desk", "--config", "c.yaml")
		cmd.Dir, cmd.Env = dir, env
		p := symbiotest.Started(t, cmd)
		p.Expect(t, "it is ready", func(l symbiotest.Line) bool { return l.Type == "ready" })
		return p
	}
	node := up()
	e := open(t, dir, env)
	id := e.session(dir)
	prompt := e.prompts(id, "wait")
	e.until("the call that waits", func(l line) bool { return l.Update.Title == "Bash cat gate" })
	if err := node.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if l := e.answered(prompt); l.Error == nil || strings.Count(l.text, "node desk is gone") != 1 {
			t.Errorf("the prompt ended with %s", l.text)
		}
		prompt = e.prompts(id, "again")
	}
	e.answered(prompt)
	for range node.Lines { // until it has ended
	}
	up()
	e.answered(e.prompts(id, "are you back?"))
	if !strings.HasSuffix(e.said, "are you back?") {
		t.Errorf("the agent said %q", e.said)
	}
}
