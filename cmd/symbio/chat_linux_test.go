package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

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
	dir, state := t.TempDir(), shortDir(t)
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

// openGate lets what waits at the gate go on.
func openGate(t *testing.T, dir string) {
	t.Helper()
	holdGate(t, dir).Close()
}

// holdGate returns when something waits at the gate. It goes on when the file is closed.
func holdGate(t *testing.T, dir string) *os.File {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); time.Now().Before(end); <-tick.C {
		f, err := os.OpenFile(filepath.Join(dir, "gate"), os.O_WRONLY|unix.O_NONBLOCK, 0)
		if err == nil {
			return f
		}
		if !errors.Is(err, unix.ENXIO) { // nobody is there yet
			t.Fatal(err)
		}
	}
	t.Fatal("nothing waits at the gate")
	return nil
}

// sees waits until a text is on the terminal, or was and has left it, so many times.
func (s *screen) sees(times int, want string) {
	s.t.Helper()
	var text string
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); time.Now().Before(end); <-tick.C {
		if text = s.scrolled(); strings.Count(text, want) >= times {
			return
		}
	}
	s.t.Fatalf("the terminal never showed %q %d times; it has\n%s", want, times, text)
}

// answers waits until so many messages have ended, also by Ctrl-C, in this terminal, those of sub-agents among them.
func (s *screen) answers(messages int) {
	s.t.Helper()
	s.sees(messages, "model call")
}

// isToBePut waits until what was typed waits to be put to the agent.
func (s *screen) isToBePut() {
	s.t.Helper()
	for range 1000 {
		s.types("/transcript\r")
		text := s.has("What the agent remembers", "Esc closes")
		s.types("\x1b")
		s.has("!What the agent remembers")
		if strings.Contains(text, "not yet delivered: 1") {
			return
		}
	}
	s.t.Fatal("what was typed never waits to be put to the agent")
}

// leaves waits for the end, and returns the exit status and what stands on the terminal.
func (s *screen) leaves() (status int, text string) {
	s.t.Helper()
	var exit *exec.ExitError
	select {
	case err := <-s.done:
		if errors.As(err, &exit) {
			status = exit.ExitCode()
		} else if err != nil {
			s.t.Fatal(err)
		}
	case <-time.After(limit):
		s.t.Fatalf("it does not end; it has shown %q", s.shown())
	}
	if text = s.last(); !strings.Contains(text, "\x1b[?2004l") {
		s.t.Errorf("pastes are still marked: %q", text)
	}
	if now := s.settings(); now.Lflag&unix.ECHO == 0 || now.Lflag&unix.ICANON == 0 {
		s.t.Errorf("the terminal is left raw: %+v", now)
	}
	return status, text
}

func (s *screen) shown() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text
}

func talk(t *testing.T, dir string, env []string, args ...string) *screen {
	t.Helper()
	return inTerminal(t, dir, env, append(args, "--config", "c.yaml", "--no-mdns")...)
}

func TestRunOnTerminalStreamsAndIsSteered(t *testing.T) {
	t.Parallel()
	dir, env := talkHome(t)
	s := talk(t, dir, env, "run", "go on")
	s.sees(1, "I wait at the gate, [31mand say so in a sentence that is longer than\na row") // while the tool runs
	s.sees(1, "● Bash cat gate")
	s.types("never mind the gate\r")
	s.sees(1, "> never mind the gate")
	s.isToBePut()
	openGate(t, dir)
	s.sees(1, "delivered: never mind the gate")
	s.sees(1, "I was told: never mind the gate")
	if status, text := s.leaves(); status != 0 || strings.Contains(text, "\x1b[31m") {
		t.Errorf("it ended with %d; what the model said moves the cursor or not: %q", status, text)
	}
}

func TestChatKeepsDraftWhenQuestionArrives(t *testing.T) {
	t.Parallel()
	dir, env := talkHome(t)
	s := talk(t, dir, env, "run", "first")
	s.sees(1, "Bash cat gate")
	s.types("yes, and")
	s.has("> yes, and")
	openGate(t, dir)
	s.has("general wants to use Write", "> yes, and")
	s.types("\x1b[B\x1b[Ay") // the arrows say that the keys are for the question now
	s.sees(1, "First: Created first.txt")
	if status, text := s.leaves(); status != 0 {
		t.Errorf("it ended with %d: %q", status, text)
	}
}

func TestQuestionIsAskedInPlace(t *testing.T) {
	t.Parallel()
	dir, env := talkHome(t)
	s := talk(t, dir, env, "chat")
	s.has("leaves", "/help ·") // the keys count from now on
	s.types("hello\r")
	s.sees(1, "You said: hello")
	s.answers(1)
	s.types("write it down\r")
	s.has("general wants to use Write", "+++ notes.txt", "y  yes, once")
	s.types("\x1b[By") // not an answer before an arrow, because a person was typing
	s.sees(1, "✓ Write notes.txt")
	s.sees(1, "Written? Created notes.txt")
	s.answers(2)
	s.has("!general wants to use Write") // the first question is gone from the screen
	s.types("write it again\r")
	s.has("general wants to use Write")
	s.types("\x1b[Bn")
	s.sees(1, "The person said no")
	s.answers(3)
	s.types("\x04")
	if status, text := s.leaves(); status != 0 {
		t.Errorf("it ended with %d: %q", status, text)
	}
}

func TestChatContinuesAfterCtrlC(t *testing.T) {
	t.Parallel()
	dir, env := talkHome(t)
	s := talk(t, dir, env, "run", "--interactive", "go on")
	s.sees(1, "Bash cat gate")
	s.types("\x03")
	s.sees(1, "the task was interrupted")
	s.answers(1)
	s.types("and you?\r")
	s.sees(1, "You said: ")
	s.sees(2, "and you?")
	s.answers(2)
	s.types("half a line")
	s.has("> half a line")
	s.types("\x03")
	s.has("!half a line")
	s.types("\x03") // away with the line, and then
	s.sees(1, "Ctrl-C again to leave")
	s.types("\x03")
	if status, text := s.leaves(); status != 0 || strings.Contains(text, "You said: half") {
		t.Errorf("it ended with %d: %q", status, text)
	}
}

func TestChatKeepsUndeliveredSteering(t *testing.T) {
	t.Parallel()
	dir, env := talkHome(t)
	s := talk(t, dir, env, "run", "--interactive", "go on")
	s.sees(1, "Bash cat gate")
	s.types("never mind the gate\r")
	s.isToBePut()
	s.types("\x03")
	s.sees(1, "not delivered, kept for your next message")
	s.has("Enter sends what the agent was not told")
	s.types("\r")
	s.sees(2, "> never mind the gate")
	s.sees(1, "I was told: ")
	s.answers(2)
	s.types("/usr/bin is where?\r")
	s.sees(1, "You said: /usr/bin is where?")
	s.answers(3)
	s.types("\x04")
	if status, text := s.leaves(); status != 0 {
		t.Errorf("it ended with %d: %q", status, text)
	}
}

func TestCtrlCInARunEndsItAndTheSecondOneAtOnce(t *testing.T) {
	t.Parallel()
	for name, press := range map[string]func(*screen){
		"a key":         func(s *screen) { s.types("\x03") },
		"two keys":      func(s *screen) { s.types("\x03\x03") },
		"a signal":      func(s *screen) { s.cmd.Process.Signal(syscall.SIGINT) },
		"another":       func(s *screen) { s.cmd.Process.Signal(syscall.SIGTERM) },
		"a hung up one": func(s *screen) { s.cmd.Process.Signal(syscall.SIGHUP) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, env := talkHome(t)
			s := talk(t, dir, env, "run", "go on")
			s.sees(1, "Bash cat gate")
			press(s)
			if status, text := s.leaves(); status != 1 || !strings.Contains(text, "interrupted\r\n") {
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
	s := talk(t, dir, env, "up", "--name", "a")
	s.sees(1, "is ready: id")
	s.cmd.Process.Signal(syscall.SIGHUP)
	select {
	case err := <-s.done:
		if err != nil {
			t.Errorf("it ended with %v: %q", err, s.shown())
		}
	case <-time.After(limit):
		t.Errorf("it does not end; it has shown %q", s.shown())
	}
}

func TestSecondCtrlCLeavesFrozenNode(t *testing.T) {
	t.Parallel()
	dir, env := talkHome(t)
	cmd := exec.Command("symbio", "up", "--json", "--name", "a", "--config", "c.yaml", "--no-mdns")
	cmd.Dir, cmd.Env = dir, env
	up := started(t, cmd)
	up.expect(t, "it is ready", func(l line) bool { return l.Type == "ready" })
	s := inTerminal(t, dir, env, "run", "--node", "a", "go on")
	s.sees(1, "Bash cat gate")
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Signal(syscall.SIGCONT)
	s.types("\x03")
	s.has("stopping (Ctrl-C again to leave)")
	s.types("\x03")
	if status, text := s.leaves(); status != 1 || !strings.Contains(text, "symbio run: interrupted\r\n") {
		t.Errorf("it ended with %d and said %q, want 1", status, text)
	}
}

func TestChatSendsPastedTextAsOneMessage(t *testing.T) {
	t.Parallel()
	dir, env := talkHome(t)
	s := talk(t, dir, env, "chat")
	s.has("leaves", "/help ·") // the keys count from now on
	s.types("a\x1b[200~b\rc\x1b[201~\x1b[D\x1b[Dd\r")
	s.sees(1, "You said: abd\nc")
	s.answers(1)
	s.types("split it\r")
	s.sees(1, "    helper  look around\n")
	s.sees(1, "    helper  is done")
	s.sees(1, "My helper says: nothing is here")
	s.answers(3) // one is the helper's
	s.types("/exit\r")
	if status, text := s.leaves(); status != 0 {
		t.Errorf("it ended with %d: %q", status, text)
	}
}

func TestPipedRunInterruptedHasResult(t *testing.T) {
	t.Parallel()
	dir, env := talkHome(t)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "symbio", "run", "--json", "--config", "c.yaml", "--no-mdns", "go on")
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
		started(t, cmd).expect(t, "it is ready", func(l line) bool { return l.Type == "ready" })
		return cmd
	}
	node := up()
	s := inTerminal(t, dir, env, "chat")
	s.has("leaves", "/help ·") // the keys count from now on
	for n, text := range []string{"hello", "and again"} {
		s.types(text + "\r")
		s.sees(1, "You said: "+text)
		s.answers(n + 1)
	}
	s.types("go on\r")
	s.sees(1, "Bash cat gate")
	defer holdGate(t, dir).Close() // the call runs, and goes on when the test ends
	if err := node.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.sees(1, "node a is gone; waiting for it to come back (Ctrl-C leaves)")
	s.types("typed meanwhile")
	s.has("> typed meanwhile")
	up()
	s.sees(1, "the interrupted task goes on")
	s.sees(1, "You said: [The program was stopped here and has been started again")
	s.answers(3)
	s.has("> typed meanwhile")
	s.types("\r")
	s.sees(1, "You said: typed meanwhile")
	s.answers(4)
	s.types("/transcript\r")
	s.has("Bash cat gate  failed: Interrupted: the program ended")
	s.types("\x1b")
	s.has("!What the agent remembers")
	s.types("\x04")
	if status, text := s.leaves(); status != 0 || !strings.Contains(text, "; symbio chat --resume ") {
		t.Errorf("it ended with %d: %q", status, text)
	}
}
