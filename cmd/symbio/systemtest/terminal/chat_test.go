//go:build system && linux

package terminal_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"symbio/internal/community/waittest"

	"symbio/cmd/symbio/symbiotest"

	"golang.org/x/sys/unix"
)

// talkScript is a model for these tests. What it waits for is a pipe that the test opens: `cat gate` ends then.
const talkScript = `
name: talk
turns:
- match: {user: 'never mind the gate'}
  text: "I was told: {{user}}"
- match: {user: '^go on', turn: 0}
  text: "I wait at the gate, \e[31mand say so in a sentence that is longer than a row of this terminal."
  calls:
  - {tool: Bash, args: {command: 'cat gate'}}
- match: {user: '^go on', turn: 1}
  text: "The gate was opened. 日本語"
- match: {user: '^first', turn: 0}
  calls:
  - {tool: Bash, args: {command: 'cat gate'}}
- match: {user: '^first', turn: 1}
  calls:
  - {tool: Write, args: {file_path: first.txt, content: "1\n"}}
- match: {user: '^first', after: [Write]}
  text: 'First: {{result}}'
- match: {user: '^write', turn: 0}
  calls:
  - {tool: Write, args: {file_path: notes.txt, content: "2\n"}}
- match: {user: '^write', after: [Write]}
  text: 'Written? {{result}}'
- match: {user: '^split', turn: 0}
  calls:
  - {tool: replicate_agent, args: {reason: 'a part', name: helper}}
- match: {user: '^split', after: [replicate_agent]}
  calls:
  - {tool: send_signal, args: {member: helper, data: 'look around'}}
- match: {user: '^look'}
  text: nothing is here
- match: {user: '^split', after: [send_signal]}
  text: 'My helper says: {{result}}'
- text: 'You said: {{user}}'
`

// talkHome is a directory with that model, a configuration and a gate.
func talkHome(t *testing.T) (dir string, env []string) {
	t.Helper()
	dir, state := t.TempDir(), symbiotest.ShortDir(t)
	for name, text := range map[string]string{
		"talk.yaml": talkScript,
		"c.yaml":    "model: scripted:talk.yaml\ndirectories: []\nskills: {enabled: false}\nsandbox: {preset: off}\npermissions: {preset: standard, allow: [replicate_agent, send_signal, 'Bash(cat gate)']}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "gate"), 0o600); err != nil {
		t.Skipf("no pipes can be made here: %v", err)
	}
	return dir, append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+state, "XDG_CONFIG_HOME="+dir, "TERM=xterm", "NO_COLOR=1")
}

func TestRunOnTerminalStreamsAndIsSteered(t *testing.T) {
	t.Parallel()
	dir, env := talkHome(t)
	s := symbiotest.Talk(t, dir, env, "run", "go on")
	s.Sees(1, "I wait at the gate, [31mand say so in a sentence that is longer than\na row") // while the tool runs
	s.Sees(1, "● Bash cat gate")
	s.Types("never mind the gate\r")
	s.Sees(1, "> never mind the gate")
	s.IsToBePut()
	symbiotest.OpenGate(t, dir)
	s.Sees(1, "delivered: never mind the gate")
	s.Sees(1, "I was told: never mind the gate")
	if status, text := s.Leaves(); status != 0 || strings.Contains(text, "\x1b[31m") {
		t.Errorf("it ended with %d; what the model said moves the cursor or not: %q", status, text)
	}
}

func TestChatKeepsDraftWhenQuestionArrives(t *testing.T) {
	t.Parallel()
	dir, env := talkHome(t)
	s := symbiotest.Talk(t, dir, env, "run", "first")
	s.Sees(1, "Bash cat gate")
	s.Types("yes, and")
	s.Has("> yes, and")
	symbiotest.OpenGate(t, dir)
	s.Has("general wants to use Write", "> yes, and")
	s.Types("\x1b[B\x1b[A\r") // the arrows say that Enter is for the question now
	s.Sees(1, "First: Created first.txt")
	if status, text := s.Leaves(); status != 0 {
		t.Errorf("it ended with %d: %q", status, text)
	}
}

func TestQuestionIsAskedInPlace(t *testing.T) {
	t.Parallel()
	dir, env := talkHome(t)
	s := symbiotest.Talk(t, dir, env, "chat")
	s.Has("leaves", "/help ·") // the keys count from now on
	s.Types("hello\r")
	s.Sees(1, "You said: hello")
	s.Answers(1)
	s.Types("write it down\r")
	s.Has("general wants to use Write", "+++ notes.txt", "y  yes, once")
	s.Types("\x1b[By") // not an answer before an arrow, because a person was typing
	s.Sees(1, "✓ Write notes.txt")
	s.Sees(1, "Written? Created notes.txt")
	s.Answers(2)
	s.Has("!general wants to use Write") // the first question is gone from the screen
	s.Types("write it again\r")
	s.Has("general wants to use Write")
	s.Types("\x1b[Bn")
	s.Sees(1, "The person said no")
	s.Answers(3)
	s.Types("\x04")
	if status, text := s.Leaves(); status != 0 {
		t.Errorf("it ended with %d: %q", status, text)
	}
}

func TestChatContinuesAfterCtrlC(t *testing.T) {
	t.Parallel()
	dir, env := talkHome(t)
	s := symbiotest.Talk(t, dir, env, "run", "--interactive", "go on")
	s.Sees(1, "Bash cat gate")
	s.Types("\x03")
	s.Sees(1, "the task was interrupted")
	s.Answers(1)
	s.Types("and you?\r")
	s.Sees(1, "You said: ")
	s.Sees(2, "and you?")
	s.Answers(2)
	s.Types("half a line")
	s.Has("> half a line")
	s.Types("\x03")
	s.Has("!half a line")
	s.Types("\x03") // away with the line, and then
	s.Sees(1, "Ctrl-C again to leave")
	s.Types("\x03")
	if status, text := s.Leaves(); status != 0 || strings.Contains(text, "You said: half") {
		t.Errorf("it ended with %d: %q", status, text)
	}
}

func TestChatKeepsUndeliveredSteering(t *testing.T) {
	t.Parallel()
	dir, env := talkHome(t)
	s := symbiotest.Talk(t, dir, env, "run", "--interactive", "go on")
	s.Sees(1, "Bash cat gate")
	s.Types("never mind the gate\r")
	s.IsToBePut()
	s.Types("\x03")
	s.Sees(1, "not delivered, kept for your next message")
	s.Has("Enter sends what the agent was not told")
	s.Types("\r")
	s.Sees(2, "> never mind the gate")
	s.Sees(1, "I was told: ")
	s.Answers(2)
	s.Types("/usr/bin is where?\r")
	s.Sees(1, "You said: /usr/bin is where?")
	s.Answers(3)
	s.Types("\x04")
	if status, text := s.Leaves(); status != 0 {
		t.Errorf("it ended with %d: %q", status, text)
	}
}

func TestCtrlCInARunEndsItAndTheSecondOneAtOnce(t *testing.T) {
	t.Parallel()
	for name, press := range map[string]func(*symbiotest.Screen){
		"a key":         func(s *symbiotest.Screen) { s.Types("\x03") },
		"two keys":      func(s *symbiotest.Screen) { s.Types("\x03\x03") },
		"a signal":      func(s *symbiotest.Screen) { s.Cmd.Process.Signal(syscall.SIGINT) },
		"another":       func(s *symbiotest.Screen) { s.Cmd.Process.Signal(syscall.SIGTERM) },
		"a hung up one": func(s *symbiotest.Screen) { s.Cmd.Process.Signal(syscall.SIGHUP) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, env := talkHome(t)
			s := symbiotest.Talk(t, dir, env, "run", "go on")
			s.Sees(1, "Bash cat gate")
			press(s)
			if status, text := s.Leaves(); status != 1 || !strings.Contains(text, "interrupted\r\n") {
				t.Errorf("it ended with %d and said %q, want 1", status, text)
			}
		})
	}
}

// A node that writes to a terminal ends with it. One that does not takes the signal as a wish to read its rules again,
// which the script reload holds.
func TestNodeEndsWithItsTerminal(t *testing.T) {
	t.Parallel()
	dir, env := talkHome(t)
	s := symbiotest.Talk(t, dir, env, "up", "--name", "a")
	s.Sees(1, "is ready: id")
	s.Cmd.Process.Signal(syscall.SIGHUP)
	if err := s.End(); err != nil {
		t.Errorf("it ended with %v: %q", err, s.Shown())
	}
}

func TestSecondCtrlCLeavesFrozenNode(t *testing.T) {
	t.Parallel()
	dir, env := talkHome(t)
	cmd := exec.Command("symbio", "up", "--json", "--name", "a", "--config", "c.yaml", "--no-mdns")
	cmd.Dir, cmd.Env = dir, env
	up := symbiotest.Started(t, cmd)
	up.Expect(t, "it is ready", func(l symbiotest.Line) bool { return l.Type == "ready" })
	s := symbiotest.InTerminal(t, dir, env, "run", "--node", "a", "go on")
	s.Sees(1, "Bash cat gate")
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Signal(syscall.SIGCONT)
	s.Types("\x03")
	s.Has("stopping (Ctrl-C again to leave)")
	s.Types("\x03")
	if status, text := s.Leaves(); status != 1 || !strings.Contains(text, "symbio run: interrupted\r\n") {
		t.Errorf("it ended with %d and said %q, want 1", status, text)
	}
}

func TestChatSendsPastedTextAsOneMessage(t *testing.T) {
	t.Parallel()
	dir, env := talkHome(t)
	s := symbiotest.Talk(t, dir, env, "chat")
	s.Has("leaves", "/help ·") // the keys count from now on
	s.Types("a\x1b[200~b\rc\x1b[201~\x1b[D\x1b[Dd\r")
	s.Sees(1, "You said: abd\nc")
	s.Answers(1)
	s.Types("split it\r")
	s.Sees(1, "    helper  look around\n")
	s.Sees(1, "    helper  is done")
	s.Sees(1, "My helper says: nothing is here")
	s.Answers(3) // one is the helper's
	s.Types("/exit\r")
	if status, text := s.Leaves(); status != 0 {
		t.Errorf("it ended with %d: %q", status, text)
	}
}

func TestPipedRunInterruptedHasResult(t *testing.T) {
	t.Parallel()
	dir, env := talkHome(t)
	cmd := exec.CommandContext(waittest.Context(t), "symbio", "run", "--json", "--config", "c.yaml", "--no-mdns", "go on")
	cmd.Dir, cmd.Env = dir, env
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all []byte
	buf := make([]byte, 4096)
	for asked := false; ; {
		n, err := out.Read(buf)
		all = append(all, buf[:n]...)
		if !asked && strings.Contains(string(all), `"verdict":"allow"`) {
			asked = true
			cmd.Process.Signal(os.Interrupt)
		}
		if err != nil {
			break
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("it ended with %v, want status 1", err)
	}
	lines := strings.Split(strings.TrimSpace(string(all)), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, `"type":"result"`) || !strings.Contains(last, `"status":"interrupted"`) {
		t.Errorf("the last line is %s, want the result of an interrupted task; all:\n%s", last, all)
	}
}

// A chat outlives its node: the person is told, types on, and the interrupted task goes on when the node is back.
func TestChatOutlivesItsNode(t *testing.T) {
	t.Parallel()
	dir, env := talkHome(t)
	up := func() *exec.Cmd {
		cmd := exec.Command("symbio", "up", "--json", "--name", "a", "--config", "c.yaml", "--no-mdns")
		cmd.Dir, cmd.Env = dir, env
		symbiotest.Started(t, cmd).Expect(t, "it is ready", func(l symbiotest.Line) bool { return l.Type == "ready" })
		return cmd
	}
	node := up()
	s := symbiotest.InTerminal(t, dir, env, "chat")
	s.Has("leaves", "/help ·") // the keys count from now on
	for n, text := range []string{"hello", "and again"} {
		s.Types(text + "\r")
		s.Sees(1, "You said: "+text)
		s.Answers(n + 1)
	}
	s.Types("go on\r")
	s.Sees(1, "Bash cat gate")
	defer symbiotest.HoldGate(t, dir).Close() // the call runs, and goes on when the test ends
	if err := node.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.Sees(1, "node a is gone; waiting for it to come back (Ctrl-C leaves)")
	s.Types("typed meanwhile")
	s.Has("> typed meanwhile")
	up()
	s.Sees(1, "the interrupted task goes on")
	s.Sees(1, "You said: [The program was stopped here and has been started again")
	s.Answers(3)
	s.Has("> typed meanwhile")
	s.Types("\r")
	s.Sees(1, "You said: typed meanwhile")
	s.Answers(4)
	s.Types("/transcript\r")
	s.Has("Bash cat gate  failed: Interrupted: the program ended")
	s.Types("\x1b")
	s.Has("!What the agent remembers")
	s.Types("\x04")
	if status, text := s.Leaves(); status != 0 || !strings.Contains(text, "; symbio chat --resume ") {
		t.Errorf("it ended with %d: %q", status, text)
	}
}
