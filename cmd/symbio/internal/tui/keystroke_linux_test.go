package tui

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"

	"symbio/agent/event"
)

// BenchmarkKeystrokeOnScreen measures from a key to the letter on the other side of the terminal, in a conversation of
// 2,000 lines. A key comes right after the letter before was drawn, so that it waits for a whole frame: the worst case.
// The floor is a program of the same frames that shows the key and does nothing else.
func BenchmarkKeystrokeOnScreen(b *testing.B) {
	d := newDesk(b, 80, 24)
	own := startTyping(b, d.model, func(p *tea.Program) {
		for i := range 2000 {
			p.Send(event.Event{Type: event.TypeText, Agent: "r", Text: fmt.Sprintf("line %d of the answer\n\n", i), Part: event.Turn{Turn: 1}})
		}
	})
	floor := startTyping(b, new(echo), func(*tea.Program) {})
	n := 0
	for b.Loop() {
		n++
		own.key(n)
		floor.key(n)
	}
	p95, least := own.p95(), floor.p95()
	b.ReportMetric(float64(p95.Microseconds())/1000, "ms-p95")
	b.ReportMetric(float64(p95)/float64(least), "x-floor")
}

// echo is the least that a program can do: it shows the last key.
type echo struct{ text string }

func (e *echo) Init() tea.Cmd { return nil }
func (e *echo) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	if k, ok := msg.(tea.KeyPressMsg); ok {
		e.text = k.Text
	}
	return e, nil
}
func (e *echo) View() tea.View { return tea.NewView(e.text) }

// typing is a program at a terminal, and a person who types.
type typing struct {
	b      *testing.B
	person *os.File
	read   []byte
	took   []time.Duration
}

func startTyping(b *testing.B, m tea.Model, prepare func(*tea.Program)) *typing {
	person, program := openPty(b)
	p := tea.NewProgram(m, tea.WithInput(program), tea.WithOutput(program), tea.WithoutSignalHandler(), tea.WithFPS(framesPerSecond), tea.WithEnvironment([]string{"TERM=xterm-256color"}))
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = p.Run() }) // Kill ends it, with an error
	b.Cleanup(func() { p.Kill(); wg.Wait() })
	t := &typing{b: b, person: person, read: make([]byte, 64<<10)}
	wg.Go(func() { prepare(p) })
	for i := range 10 { // the first ones wait until the program has begun
		t.key(i)
	}
	t.took = nil
	return t
}

// key clears the line, types the nth letter of Cyrillic, which is in no control sequence, and waits until it is drawn.
func (t *typing) key(n int) {
	letter := string(rune('а' + n%32))
	began := time.Now()
	if _, err := t.person.WriteString("\x15" + letter); err != nil {
		t.b.Fatal(err)
	}
	if err := t.person.SetReadDeadline(began.Add(time.Minute)); err != nil {
		t.b.Fatal(err)
	}
	for seen := false; !seen; {
		got, err := t.person.Read(t.read)
		if err != nil {
			t.b.Fatalf("%s is not drawn: %v", letter, err)
		}
		seen = bytes.Contains(t.read[:got], []byte(letter))
	}
	t.took = append(t.took, time.Since(began))
}

func (t *typing) p95() time.Duration {
	slices.Sort(t.took)
	return t.took[len(t.took)*95/100]
}

// openPty returns both ends of a new terminal.
func openPty(b testing.TB) (person, program *os.File) {
	b.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		b.Skipf("no terminals can be made here: %v", err)
	}
	b.Cleanup(func() { person.Close() })
	raw, err := person.SyscallConn()
	if err != nil {
		b.Fatal(err)
	}
	number := 0
	err = raw.Control(func(fd uintptr) {
		_ = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0) // an error here shows in the open below
		number, _ = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
	})
	if err == nil {
		program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { program.Close() })
	return person, program
}
