//go:build system && linux

package guests_test

import (
	"bytes"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"symbio/cmd/symbio/symbiotest"
)

// machine is one of two machines on a LAN: it has a loopback, a home and a state of its own.
type machine struct {
	*symbiotest.Host
	name string
	node *symbiotest.Process
}

// symbio is a command of the program on that machine.
func (m *machine) symbio(args ...string) *exec.Cmd {
	cmd := m.Inside(append([]string{"symbio"}, args...)...)
	cmd.Dir = m.State
	return cmd
}

// up starts the machine's node.
func (m *machine) up(t *testing.T) {
	t.Helper()
	m.node = symbiotest.Started(t, m.symbio("up", "--json", "--config", "config.yaml"))
	m.node.Expect(t, "ready", func(l symbiotest.Line) bool { return l.Type == "ready" })
}

const deskConfig = `
node: {name: desk}
model: scripted:worker.yaml
permissions: {preset: none, allow: ["*"]}
authorize:
  - {from: role/node, invoke: [agents.spawn, agents.steer, "approvals.*"]}
`

const kitchenConfig = `
node: {name: kitchen}
workspace: there
agents: agents
model: scripted:worker.yaml
permissions: {preset: standard}
approvals: {unattended: true}
capabilities:
  - {name: agents.spawn, agents: [opencode, claude, worker], timeout: 5m}
authorize:
  - {from: role/node, invoke: [agents.spawn, agents.steer, "approvals.*"]}
`

const workerScript = `
name: worker
turns:
- match: {user: '.'}
  text: looked
`

// opencodeDefinition asks before it edits and runs.
const opencodeDefinition = `---
name: opencode
description: OpenCode.
acp:
  command: [BIN/opencode, acp]
  env:
    - 'OPENCODE_CONFIG_CONTENT={"autoupdate":false,"permission":{"edit":"ask"},"provider":{"mock":{"npm":"@ai-sdk/openai-compatible","options":{"baseURL":"MODEL/v1","apiKey":"x"},"models":{"m":{}}}},"model":"mock/m","small_model":"mock/m"}'
    - OPENCODE_DISABLE_MODELS_FETCH=1
  hosts: ["HOST"]
---
Do as you are told.
`

const claudeDefinition = `---
name: claude
description: Claude Code.
acp:
  command: [BIN/claude-code-acp]
  env: [ANTHROPIC_API_KEY=x, "ANTHROPIC_BASE_URL=MODEL", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1]
  hosts: ["HOST"]
---
Do as you are told.
`

// Two machines, programs that nobody here wrote: those of one work for the other, whose person is asked for an edit.
func TestForeignProgramsOnTwoMachines(t *testing.T) {
	bin := programs(t)
	symbiotest.OnASwitch(t, func(t *testing.T) {
		desk, kitchen := newMachines(t, bin)
		edited := filepath.Join(kitchen.State, "there", "new.txt")
		for _, agent := range []string{"opencode", "claude"} {
			if out := desk.Symbio("run", "--on", "kitchen", "--agent", agent, "hello"); !strings.Contains(out, "I saw: hello") {
				t.Errorf("%s: %s", agent, out)
			}
		}
		write := `CALL write {"filePath":"` + edited + `","content":"x"}`
		if out, err := desk.symbio("run", "--on", "kitchen", "--agent", "opencode", write).CombinedOutput(); err == nil {
			t.Errorf("without a person it ended well: %s", out)
		}
		if _, err := os.Stat(edited); err == nil {
			t.Error("the file was written although nobody said yes")
		}
		kitchen.Symbio("agents", "spawn", "--node", "kitchen", "opencode", "--name", "editor")
		kitchen.Symbio("send", "--node", "kitchen", "editor", "task", "--no-reply", write)
		id := waiting(t, desk)
		if shown := desk.Symbio("approvals", "show", id); !strings.Contains(shown, "new.txt") || !strings.Contains(shown, "+x") {
			t.Errorf("the change is not shown: %s", shown)
		} else {
			t.Logf("%s", shown)
		}
		if _, err := os.Stat(edited); err == nil {
			t.Error("the file was written before the answer")
		}
		desk.Symbio("approvals", "allow", id)
		symbiotest.Await(t, "the file is written after the yes", func() bool { text, _ := os.ReadFile(edited); return string(text) == "x" })

		for verb, want := range map[string]string{"allow": "Perfect!", "deny": "prefer not to make that change"} {
			run := kitchen.symbio("run", "--node", "kitchen", "--agent", "example", "improve it")
			var said bytes.Buffer
			run.Stdout = &said
			if err := run.Start(); err != nil {
				t.Fatal(err)
			}
			desk.Symbio("approvals", verb, waiting(t, desk))
			if err := run.Wait(); !strings.Contains(said.String(), want) {
				t.Errorf("%v: %s", err, said.String())
			}
		}

		lost := desk.symbio("run", "--on", "kitchen", "--agent", "opencode", `CALL bash {"command":"sleep 98712","description":"wait"}`)
		var said bytes.Buffer
		lost.Stdout, lost.Stderr = &said, &said
		if err := lost.Start(); err != nil {
			t.Fatal(err)
		}
		sleeps := func() bool { return exec.Command("pgrep", "-x", "-f", "sleep 98712").Run() == nil }
		symbiotest.AwaitProgram(t, "the program works", sleeps)
		if err := desk.node.Cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := lost.Wait(); err == nil {
			t.Errorf("the command ended well without its node: %s", said.String())
		}
		t.Logf("%s", said.String())
		symbiotest.AwaitProgram(t, "the program ends, for it works for nobody", func() bool { return !sleeps() })
		symbiotest.AwaitProgram(t, "the session of the task has ended, too", func() bool {
			out := kitchen.Symbio("sessions", "list", "--node", "kitchen")
			ended := !strings.Contains(out, "\tworking\t")
			if ended {
				t.Log(out)
			}
			return ended
		})
	})
}

// waiting returns the id of the one question that waits for a person, as the machine lists it.
func waiting(t *testing.T, on *machine) (id string) {
	t.Helper()
	symbiotest.AwaitProgram(t, "a question is listed", func() bool {
		if found := regexp.MustCompile(`(?m)^([0-9]+-[0-9a-f]+)\b`).FindStringSubmatch(on.Symbio("approvals", "list")); found != nil {
			id = found[1]
		}
		return id != ""
	})
	return id
}

// newMachines starts two nodes of one cluster and a model on their LAN. The agents are on kitchen.
func newMachines(t *testing.T, bin string) (desk, kitchen *machine) {
	t.Helper()
	symbiotest.IP(t, "addr", "add", "10.77.0.254/24", "dev", "br0")
	symbiotest.IP(t, "link", "set", "lo", "up")
	model := symbiotest.NewStrictModel(t, obedientAnswer)
	l, err := net.Listen("tcp", "10.77.0.254:0")
	if err != nil {
		t.Fatal(err)
	}
	onLAN := httptest.NewUnstartedServer(model)
	onLAN.Listener.Close()
	onLAN.Listener = l
	onLAN.Start()
	t.Cleanup(func() { onLAN.CloseClientConnections(); onLAN.Close() })
	fill := strings.NewReplacer("BIN", bin, "MODEL", onLAN.URL, "HOST", l.Addr().String())
	desk, kitchen = &machine{Host: symbiotest.PlugIn(t, 1), name: "desk"}, &machine{Host: symbiotest.PlugIn(t, 2), name: "kitchen"}
	write := func(m *machine, name, text string) {
		path := filepath.Join(m.State, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(fill.Replace(text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range []*machine{desk, kitchen} {
		write(m, "worker.yaml", workerScript)
	}
	write(desk, "config.yaml", deskConfig)
	write(kitchen, "config.yaml", kitchenConfig)
	write(kitchen, "agents/opencode.md", opencodeDefinition)
	write(kitchen, "agents/claude.md", claudeDefinition)
	write(kitchen, "agents/worker.md", "---\nname: worker\n---\nWork.\n")
	write(kitchen, "there/notes.txt", "one\ntwo\n")
	example := filepath.Join(kitchen.State, "example")
	if err := symbiotest.GoBuild("-o", example, "github.com/coder/acp-go-sdk/example/agent"); err != nil {
		t.Fatal(err)
	}
	add := kitchen.symbio("agents", "add", "example", "--config", "config.yaml", "--", example)
	if out, err := add.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	desk.Symbio("cluster", "init", "--name", "home", "--node", "desk")
	desk.up(t)
	pasted := regexp.MustCompile(`symbio (cluster join SYM1-\S+ \S+)`).FindStringSubmatch(desk.Symbio("cluster", "token", "--node", "desk"))
	if pasted == nil {
		t.Fatal("no line to paste")
	}
	kitchen.Symbio(append(strings.Fields(pasted[1]), "--node", "kitchen")...)
	kitchen.up(t)
	return desk, kitchen
}
