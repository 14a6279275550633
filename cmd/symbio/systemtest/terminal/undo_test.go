//go:build system && linux

package terminal_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"symbio/cmd/symbio/symbiotest"

	"golang.org/x/sys/unix"
)

// The difference of an undo fits a terminal of 80 columns, cannot control it, and nothing is put back before
// the person has agreed.
func TestUndoAsksOnTerminal(t *testing.T) {
	t.Parallel()
	dir, env := talkHome(t)
	notes := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(notes, []byte("one \x1b[31mred\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	output := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("symbio", args...)
		cmd.Dir, cmd.Env = dir, env
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	output("run", "--config", "c.yaml", "--no-mdns", "--yes-to", "Write(*)", "write")
	var all []struct{ ID string }
	if err := json.Unmarshal([]byte(output("sessions", "list", "--json")), &all); err != nil || len(all) != 1 {
		t.Fatalf("%d sessions, %v", len(all), err)
	}
	for _, c := range []struct {
		answer, want string
		status       int
	}{{"n", "2\n", 3}, {"y", "one \x1b[31mred\n", 0}} {
		s := symbiotest.InTerminal(t, dir, env, "sessions", "undo", all[0].ID)
		if err := unix.IoctlSetWinsize(int(s.Term.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
			t.Fatal(err)
		}
		const question = "Put them back? [y/N]"
		s.Sees(1, question)
		if now, err := os.ReadFile(notes); err != nil || string(now) != "2\n" {
			t.Errorf("before the answer the file is %q, %v", now, err)
		}
		shown, _, _ := strings.Cut(s.Shown(), question)
		for _, line := range strings.Split(shown, "\r\n")[1:] { // the first one names the directory
			if utf8.RuneCountInString(line) > 80 || strings.ContainsRune(line, '\x1b') {
				t.Errorf("a line is %q", line)
			}
		}
		for _, want := range []string{"exchange 1 and what came after it", "--- notes.txt\r\n", "-2\r\n", "+one "} {
			if !strings.Contains(shown, want) {
				t.Errorf("it shows %q, without %q", shown, want)
			}
		}
		s.Types(c.answer + "\r")
		err := <-s.Done
		status := 0
		if exit, ok := err.(*exec.ExitError); ok {
			status = exit.ExitCode()
		}
		if now, err := os.ReadFile(notes); status != c.status || err != nil || string(now) != c.want {
			t.Errorf("after %s: status %d, and the file is %q, %v; it showed %q", c.answer, status, now, err, s.Shown())
		}
	}
}
