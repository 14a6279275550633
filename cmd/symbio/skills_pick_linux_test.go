package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// screen is a terminal with a program in it.
type screen struct {
	t      *testing.T
	person *os.File // the person's side
	term   *os.File // the program's side
	cmd    *exec.Cmd
	done   chan error
	mu     sync.Mutex
	text   string       // guarded by mu: all that was written
	glass  *vt.Emulator // guarded by mu: what is seen, and the scrollback
}

// The size of the terminal.
const glassColumns, glassRows = 70, 24

func openTerminal(t *testing.T) (person, term *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("no terminals can be made here: %v", err)
	}
	t.Cleanup(func() { person.Close() })
	raw, err := person.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if ctl := raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			n, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
		if err == nil {
			err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: glassRows, Col: glassColumns})
		}
	}); ctl != nil || err != nil {
		t.Fatal(ctl, err)
	}
	term, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals can be opened here: %v", err)
	}
	t.Cleanup(func() { term.Close() })
	return person, term
}

func inTerminal(t *testing.T, dir string, env []string, args ...string) *screen {
	t.Helper()
	person, term := openTerminal(t)
	s := &screen{t: t, person: person, term: term, done: make(chan error, 1), glass: vt.NewEmulator(glassColumns, glassRows)}
	go io.Copy(person, s.glass) // what the terminal is asked, it answers
	// This ends the copy. Close would, too, but it writes a field that Read reads.
	t.Cleanup(func() { s.glass.InputPipe().(io.Closer).Close() })
	s.cmd = exec.Command("symbio", args...)
	s.cmd.Dir, s.cmd.Env = dir, env
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = term, term, term
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.cmd.Process.Kill() })
	go func() { s.done <- s.cmd.Wait() }()
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := person.Read(buf)
			s.mu.Lock()
			s.text += string(buf[:n])
			s.glass.Write(buf[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return s
}

// shows waits until the picture fits, and returns it.
func (s *screen) shows(what string, fits func(picture string) bool) string {
	s.t.Helper()
	var text string
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); time.Now().Before(end); <-tick.C {
		if text = s.seen(); fits(text) {
			return text
		}
	}
	s.t.Fatalf("the terminal never showed %s; it shows\n%s", what, text)
	return ""
}

// seen returns what is on the terminal now.
func (s *screen) seen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.glass.String()
}

// scrolled returns the rows that have left the top of the terminal, and those that are on it.
func (s *screen) scrolled() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for y := range s.glass.ScrollbackLen() {
		for x := 0; x < glassColumns; {
			c := s.glass.ScrollbackCellAt(x, y)
			if c == nil {
				break
			}
			b.WriteString(c.Content)
			x += max(1, c.Width)
		}
		b.WriteString("\n")
	}
	rows := strings.Split(b.String()+s.glass.String(), "\n")
	for i := range rows {
		rows[i] = strings.TrimRight(rows[i], " ")
	}
	return strings.Join(rows, "\n")
}

func (s *screen) has(texts ...string) string {
	s.t.Helper()
	return s.shows(fmt.Sprint(texts), func(p string) bool {
		for _, text := range texts {
			text, not := strings.CutPrefix(text, "!")
			if strings.Contains(p, text) == not {
				return false
			}
		}
		return true
	})
}

func (s *screen) types(keys string) {
	s.t.Helper()
	if _, err := io.WriteString(s.person, keys); err != nil {
		s.t.Fatal(err)
	}
}

// ends waits for the end, and returns what stands below the pictures.
func (s *screen) ends() (after string, err error) {
	s.t.Helper()
	select {
	case err = <-s.done:
	case <-time.After(limit):
		s.t.Fatal("it does not end")
	}
	_, after, _ = strings.Cut(s.last(), "\x1b[?1049l")
	return after, err
}

// theEnd is written behind what an ended program wrote, so that it is known to be all.
const theEnd = "\x00the end"

// last is all that was written by a program that has ended.
func (s *screen) last() string {
	s.t.Helper()
	if _, err := io.WriteString(s.term, theEnd); err != nil {
		s.t.Fatal(err)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); time.Now().Before(end); <-tick.C {
		s.mu.Lock()
		text := s.text
		s.mu.Unlock()
		if before, ok := strings.CutSuffix(text, theEnd); ok {
			return before
		}
	}
	s.t.Fatal("the terminal is stuck")
	return ""
}

func (s *screen) settings() unix.Termios {
	s.t.Helper()
	state, err := unix.IoctlGetTermios(int(s.term.Fd()), unix.TCGETS)
	if err != nil {
		s.t.Fatal(err)
	}
	return *state
}

func skillsHome(t *testing.T) (dir string, env []string) {
	t.Helper()
	dir, state := t.TempDir(), shortDir(t)
	for path, text := range map[string]string{
		"project/.git/x":                        "",
		"project/.agents/skills/alpha/SKILL.md": "---\nname: alpha\ndescription: Writes changelogs.\n---\n",
		"project/.agents/skills/beta/SKILL.md":  "---\nname: beta\ndescription: \"Looks \\e[31mred\\e[0m.\"\n---\n",
		".agents/skills/mine/SKILL.md":          "---\nname: mine\ndescription: 日本語の説明がここにあります、とても長いので切られるはずです、本当に。\n---\n",
		".agents/skills/fixed/SKILL.md":         "---\nname: fixed\ndescription: Off by the configuration.\n---\n",
		".config/symbio/symbio.yaml":            "skills: {disabled: [fixed]}\n",
	} {
		file := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "project"), append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+state, "XDG_CONFIG_HOME="+filepath.Join(dir, ".config"), "TERM=xterm", "NO_COLOR=1")
}

func TestPickerSwitchesSkillsOff(t *testing.T) {
	t.Parallel()
	dir, env := skillsHome(t)
	s := inTerminal(t, dir, env, "skills")
	s.has("> [x]  alpha", "[x]  beta", "[x]  mine", "[ ]  fixed", "5 of 5")
	s.types("be")
	s.has("Skills: be_", "> [x]  beta", "!alpha", "1 of 5")
	s.types(" ")
	s.has("> [ ]* beta", "1 changed")
	s.types("\x1b")
	s.has("Skills: _", "> [x]  alpha", "[ ]* beta")
	s.types("\t\t") // project, then user
	s.has("2 of 5, user", "> [ ]  fixed")
	s.types(" ")
	s.has("stays off: skills.disabled, ", "> [ ]  fixed")
	s.types("\x1b[B ")
	picture := s.has("> [ ]* mine")
	for _, line := range strings.Split(picture, "\n") {
		line = strings.TrimRight(line, " ")
		wide := strings.Count(line, "日本語の説明が") * len([]rune("日本語の説明が")) // at least; these take two columns
		if len([]rune(line))+wide >= 70 {
			t.Errorf("a line is wider than the terminal: %q", line)
		}
	}
	if strings.Contains(picture, "\x1b") {
		t.Errorf("what a skill says moves the cursor: %q", picture)
	}
	s.types("\r")
	after, err := s.ends()
	if err != nil || !strings.Contains(after, "off\tbeta\t") || !strings.Contains(after, "off\tmine\t") || strings.Contains(after, "alpha") {
		t.Errorf("it ended with %v and said %q, want beta and mine off", err, after)
	}
	list := exec.Command("symbio", "skills", "list")
	list.Dir, list.Env = dir, env
	out, err := list.Output()
	if err != nil || !strings.Contains(string(out), "beta\tproject\toff\t") || !strings.Contains(string(out), "alpha\tproject\tenabled\t") {
		t.Errorf("the list afterwards is %s, %v", out, err)
	}
}

func TestPickerSwitchesOnSkillByName(t *testing.T) {
	t.Parallel()
	dir, env := skillsHome(t)
	run := func(args ...string) string {
		cmd := exec.Command("symbio", args...)
		cmd.Dir, cmd.Env = dir, env
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	run("skills", "disable", "alpha")
	s := inTerminal(t, dir, env, "skills", "enable")
	s.has("> [ ]  alpha")
	s.types(" \x0e ") // and beta off
	s.has("[x]* alpha", "> [ ]* beta")
	s.types("\r")
	if after, err := s.ends(); err != nil || !strings.Contains(after, "on\talpha\t") || !strings.Contains(after, "off\tbeta\t") {
		t.Errorf("it ended with %v and said %q, want alpha on and beta off", err, after)
	}
	if out := run("skills", "list"); !strings.Contains(out, "alpha\tproject\tenabled\t") {
		t.Errorf("the list afterwards is %s", out)
	}
}

func TestPickerCancelChangesNothing(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*screen){
		"by key":    func(s *screen) { s.types("\x03") },
		"by signal": func(s *screen) { s.cmd.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, env := skillsHome(t)
			s := inTerminal(t, dir, env, "skills", "disable")
			s.has("> [x]  alpha")
			raw := s.settings()
			s.types(" ")
			s.has("> [ ]* alpha")
			leave(s)
			after, err := s.ends()
			if name == "by key" && (err != nil || !strings.Contains(after, "Nothing changed.")) {
				t.Errorf("it ended with %v and said %q", err, after)
			}
			now := s.settings()
			if cmp.Equal(raw, now) || now.Lflag&unix.ECHO == 0 || now.Lflag&unix.ICANON == 0 {
				t.Errorf("the terminal is left raw: %+v", now)
			}
			list := exec.Command("symbio", "skills", "list")
			list.Dir, list.Env = dir, env
			if out, err := list.Output(); err != nil || !strings.Contains(string(out), "alpha\tproject\tenabled\t") {
				t.Errorf("the list afterwards is %s, %v", out, err)
			}
		})
	}
}

func TestPickerFollowsWindow(t *testing.T) {
	t.Parallel()
	dir, env := skillsHome(t)
	s := inTerminal(t, dir, env, "skills")
	s.has("alpha", "mine")
	raw, err := s.person.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if ctl := raw.Control(func(fd uintptr) {
		err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 6, Col: 30})
	}); ctl != nil || err != nil {
		t.Fatal(ctl, err)
	}
	s.mu.Lock()
	s.glass.Resize(30, 6)
	s.mu.Unlock()
	s.cmd.Process.Signal(syscall.SIGWINCH) // the kernel sends it to the group that a terminal controls, which this is not
	s.has("alpha", "beta", "!mine")
	s.types("\x1b[B\x1b[B\x1b[B")
	s.has("> [x]  mine", "!alpha")
	s.types("\x03")
	if _, err := s.ends(); err != nil {
		t.Error(err)
	}
}
