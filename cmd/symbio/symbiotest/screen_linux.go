package symbiotest

import (
	"errors"
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

	"symbio/internal/community/waittest"

	"github.com/charmbracelet/x/vt"
	"golang.org/x/sys/unix"
)

// OpenGate lets what waits at the gate go on.
func OpenGate(t *testing.T, dir string) {
	t.Helper()
	HoldGate(t, dir).Close()
}

// HoldGate returns when something waits at the gate. It goes on when the file is closed.
func HoldGate(t *testing.T, dir string) *os.File {
	t.Helper()
	var f *os.File
	waittest.Until(t, "a reader at the gate", func() (any, bool) {
		var err error
		f, err = os.OpenFile(filepath.Join(dir, "gate"), os.O_WRONLY|unix.O_NONBLOCK, 0)
		if err != nil && !errors.Is(err, unix.ENXIO) { // nothing reads yet
			t.Fatal(err)
		}
		return err, err == nil
	})
	return f
}

// Sees waits until a text is on the terminal, or was and has left it, so many times.
func (s *Screen) Sees(times int, want string) {
	s.T.Helper()
	waittest.Until(s.T, fmt.Sprintf("the terminal to show %q %d times", want, times), func() (any, bool) {
		text := s.Scrolled()
		return text, strings.Count(text, want) >= times
	})
}

// Answers waits until so many messages have ended, also by Ctrl-C, in this terminal, those of sub-agents among them.
func (s *Screen) Answers(messages int) {
	s.T.Helper()
	s.Sees(messages, "model call")
}

// IsToBePut waits until what was typed waits to be put to the agent.
func (s *Screen) IsToBePut() {
	s.T.Helper()
	for range 1000 {
		s.Types("/transcript\r")
		text := s.Has("What the agent remembers", "Esc closes")
		s.Types("\x1b")
		s.Has("!What the agent remembers")
		if strings.Contains(text, "not yet delivered: 1") {
			return
		}
	}
	s.T.Fatal("what was typed never waits to be put to the agent")
}

// Leaves waits for the end, and returns the exit status and what stands on the terminal.
func (s *Screen) Leaves() (status int, text string) {
	s.T.Helper()
	var exit *exec.ExitError
	if err := s.End(); errors.As(err, &exit) {
		status = exit.ExitCode()
	} else if err != nil {
		s.T.Fatal(err)
	}
	if text = s.Last(); !strings.Contains(text, "\x1b[?2004l") {
		s.T.Errorf("pastes are still marked: %q", text)
	}
	if now := s.Settings(); now.Lflag&unix.ECHO == 0 || now.Lflag&unix.ICANON == 0 {
		s.T.Errorf("the terminal is left raw: %+v", now)
	}
	return status, text
}

// End waits for the end of the program, and returns the error of its process.
func (s *Screen) End() (err error) {
	s.T.Helper()
	waittest.Until(s.T, "the end of the program", func() (any, bool) {
		select {
		case err = <-s.Done:
			return nil, true
		default:
			return s.Shown(), false
		}
	})
	return err
}

// Shown returns all that was written to the terminal.
func (s *Screen) Shown() string {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.text
}

func Talk(t *testing.T, dir string, env []string, args ...string) *Screen {
	t.Helper()
	return InTerminal(t, dir, env, append(args, "--config", "c.yaml", "--no-mdns")...)
}

// Screen is a terminal with a program in it.
type Screen struct {
	T      *testing.T
	Person *os.File // the person's side
	Term   *os.File // the program's side
	Cmd    *exec.Cmd
	Done   chan error
	Mu     sync.Mutex
	text   string       // guarded by mu: all that was written
	Glass  *vt.Emulator // guarded by mu: what is seen, and the scrollback
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

func InTerminal(t *testing.T, dir string, env []string, args ...string) *Screen {
	t.Helper()
	cmd := exec.Command("symbio", args...)
	cmd.Dir, cmd.Env = dir, env
	return OnScreen(t, cmd)
}

// OnScreen starts a command in a terminal.
func OnScreen(t *testing.T, cmd *exec.Cmd) *Screen {
	t.Helper()
	person, term := openTerminal(t)
	s := &Screen{T: t, Person: person, Term: term, Done: make(chan error, 1), Glass: vt.NewEmulator(glassColumns, glassRows)}
	go io.Copy(person, s.Glass) // what the terminal is asked, it answers
	// This ends the copy. Close would, too, but it writes a field that Read reads.
	t.Cleanup(func() { s.Glass.InputPipe().(io.Closer).Close() })
	s.Cmd = cmd
	s.Cmd.Stdin, s.Cmd.Stdout, s.Cmd.Stderr = term, term, term
	s.Cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := s.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Cmd.Process.Kill() })
	go func() { s.Done <- s.Cmd.Wait() }()
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := person.Read(buf)
			s.Mu.Lock()
			s.text += string(buf[:n])
			s.Glass.Write(buf[:n])
			s.Mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return s
}

// Shows waits until the picture fits, and returns it.
func (s *Screen) Shows(what string, fits func(picture string) bool) string {
	s.T.Helper()
	var text string
	waittest.Until(s.T, "the terminal to show "+what, func() (any, bool) {
		text = s.seen()
		return text, fits(text)
	})
	return text
}

// seen returns what is on the terminal now.
func (s *Screen) seen() string {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Glass.String()
}

// Scrolled returns the rows that have left the top of the terminal, and those that are on it.
func (s *Screen) Scrolled() string {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	var b strings.Builder
	for y := range s.Glass.ScrollbackLen() {
		for x := 0; x < glassColumns; {
			c := s.Glass.ScrollbackCellAt(x, y)
			if c == nil {
				break
			}
			b.WriteString(c.Content)
			x += max(1, c.Width)
		}
		b.WriteString("\n")
	}
	rows := strings.Split(b.String()+s.Glass.String(), "\n")
	for i := range rows {
		rows[i] = strings.TrimRight(rows[i], " ")
	}
	return strings.Join(rows, "\n")
}

func (s *Screen) Has(texts ...string) string {
	s.T.Helper()
	return s.Shows(fmt.Sprint(texts), func(p string) bool {
		for _, text := range texts {
			text, not := strings.CutPrefix(text, "!")
			if strings.Contains(p, text) == not {
				return false
			}
		}
		return true
	})
}

func (s *Screen) Types(keys string) {
	s.T.Helper()
	if _, err := io.WriteString(s.Person, keys); err != nil {
		s.T.Fatal(err)
	}
}

// Ends waits for the end, and returns what stands below the pictures.
func (s *Screen) Ends() (after string, err error) {
	s.T.Helper()
	err = s.End()
	_, after, _ = strings.Cut(s.Last(), "\x1b[?1049l")
	return after, err
}

// theEnd is written behind what an ended program wrote, so that it is known to be all.
const theEnd = "\x00the end"

// Last is all that was written by a program that has ended.
func (s *Screen) Last() string {
	s.T.Helper()
	if _, err := io.WriteString(s.Term, theEnd); err != nil {
		s.T.Fatal(err)
	}
	var before string
	waittest.Until(s.T, "all that the program wrote", func() (any, bool) {
		var ok bool
		before, ok = strings.CutSuffix(s.Shown(), theEnd)
		return before, ok
	})
	return before
}

func (s *Screen) Settings() unix.Termios {
	s.T.Helper()
	state, err := unix.IoctlGetTermios(int(s.Term.Fd()), unix.TCGETS)
	if err != nil {
		s.T.Fatal(err)
	}
	return *state
}
