package symbiotest

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"symbio/internal/community/waittest"
)

// ShortDir is a directory whose path is short enough for a socket below it.
func ShortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sy")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Process is a `symbio up --json` and the lines that it prints.
type Process struct {
	Cmd    *exec.Cmd
	Lines  chan Line
	stderr string // the file
}

// Stderr returns what the process has written to its standard error.
func (p *Process) Stderr() string {
	text, err := os.ReadFile(p.stderr)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Line is one line that a node prints as JSON: an event, or that it is ready.
type Line struct {
	Time              time.Time
	Type, Node, Name  string
	Local             bool
	ID, Listen, State string
	Agent, Addr, Why  string
}

// Started starts a node and reads what it prints.
func Started(t *testing.T, cmd *exec.Cmd) *Process {
	t.Helper()
	out, err := cmd.StdoutPipe()
	stderr, err2 := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stderr.Close() // the process has its own
	p := &Process{Cmd: cmd, Lines: make(chan Line, 1024), stderr: stderr.Name()}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(p.Lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			var l Line
			if json.Unmarshal(s.Bytes(), &l) == nil {
				p.Lines <- l
			}
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-read
		cmd.Wait()
	})
	return p
}

// Ended wants the node to end cleanly, and waits for it.
func (p *Process) Ended(t *testing.T) {
	t.Helper()
	for range p.Lines { // until there are no more
	}
	if err := p.Cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// Expect waits for a line that fits.
func (p *Process) Expect(t *testing.T, what string, fits func(Line) bool) Line {
	t.Helper()
	for {
		if l := waittest.Receive(t, "the node's line: "+what, p.Lines); fits(l) {
			return l
		}
	}
}
