package tui

import (
	"bytes"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"symbio/cmd/symbio/internal/chat"
	"symbio/cmd/symbio/internal/command"
	"symbio/internal/community/waittest"
)

func TestTerminalPrintsBelowFirstFrame(t *testing.T) {
	person, program := openPty(t)
	home := t.TempDir()
	env := &command.Env{In: program, Out: program, Err: program, OutIsTerminal: true, Getenv: func(name string) string {
		return map[string]string{"HOME": home, "XDG_STATE_HOME": home, "XDG_CONFIG_HOME": home}[name]
	}}
	term, err := Open(t.Context(), env, nil)
	if err != nil {
		t.Fatal(err)
	}
	term.Show(chat.Note{Text: "hello"})
	late, _ := waittest.Context(t).Deadline() // zero: never
	if err := person.SetReadDeadline(late); err != nil {
		t.Fatal(err)
	}
	var all []byte
	for part := make([]byte, 4<<10); !bytes.Contains(all, []byte("hello")); {
		n, err := person.Read(part)
		if err != nil {
			t.Fatalf("the note is not printed: %v; the terminal got %q", err, all)
		}
		all = append(all, part[:n]...)
	}
	if before, _, _ := bytes.Cut(all, []byte("hello")); !bytes.Contains(before, []byte(ansi.SetModeTextCursorEnable)) {
		t.Errorf("before the first frame, the terminal got %q", before)
	}
	if err := term.Close(); err != nil {
		t.Error(err)
	}
}
