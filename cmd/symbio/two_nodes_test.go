package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// process is a `symbio up --json` and the lines that it prints.
type process struct {
	cmd   *exec.Cmd
	lines chan line
}

type line struct {
	Time              time.Time
	Type, Node, Name  string
	Local             bool
	ID, Listen, State string
	Agent, Addr, Why  string
}

// up starts a node with no flags but the one that makes it print.
func up(t *testing.T, state string) *process {
	t.Helper()
	cmd := exec.Command("symbio", "up", "--json")
	cmd.Env = append(os.Environ(), "HOME="+state, "XDG_STATE_HOME="+state, "XDG_CONFIG_HOME="+state)
	return started(t, cmd)
}

// started starts a node and reads what it prints.
func started(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	cmd.Stderr = io.Discard
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, lines: make(chan line, 1024)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			var l line
			if json.Unmarshal(s.Bytes(), &l) == nil {
				p.lines <- l
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

// ended wants the node to end cleanly, and waits for it.
func (p *process) ended(t *testing.T) {
	t.Helper()
	for range p.lines { // until there are no more
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// expect waits for a line that fits.
func (p *process) expect(t *testing.T, what string, fits func(line) bool) line {
	t.Helper()
	deadline := time.After(limit)
	for {
		select {
		case l, ok := <-p.lines:
			if !ok {
				t.Fatalf("the node ended before it said: %s", what)
			}
			if fits(l) {
				return l
			}
		case <-deadline:
			t.Fatalf("nothing in %v: %s", limit, what)
		}
	}
}

// Two nodes that were told nothing find each other by mDNS on loopback, and one that is killed is
// noticed within the time of the failure table. The promises are 2 s and 3 s; a hundredth is usual.
func TestTwoNodesDetectKilledNode(t *testing.T) {
	state := shortDir(t)
	a := up(t, state)
	ready := a.expect(t, "ready", func(l line) bool { return l.Type == "ready" })
	b := up(t, state)
	other := b.expect(t, "ready", func(l line) bool { return l.Type == "ready" })
	if ready.Name == other.Name || ready.ID == other.ID {
		t.Fatalf("two nodes are both %s %s", ready.Name, ready.ID)
	}
	at := time.Now()
	met := a.expect(t, "b joined", func(l line) bool { return l.Type == "joined" && l.Name == other.Name && !l.Local })
	within(t, "a saw b", at, met.Time, 2*time.Second)
	at = time.Now()
	if err := b.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	lost := a.expect(t, "b became unavailable", func(l line) bool { return l.Type == "became unavailable" && l.Name == other.Name })
	within(t, "a noticed the death of b", at, lost.Time, 3*time.Second)
}

// A stop says goodbye and ends in time, if a person or a service manager asks for it. (The terminal that is closed is in
// TestNodeEndsWithItsTerminal: elsewhere its signal has the rules read again.)
func TestNodeEndsAtOnceOnSignal(t *testing.T) {
	state := shortDir(t)
	a := up(t, state)
	a.expect(t, "ready", func(l line) bool { return l.Type == "ready" })
	for _, ask := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		b := up(t, state)
		other := b.expect(t, "ready", func(l line) bool { return l.Type == "ready" })
		a.expect(t, "b joined", func(l line) bool { return l.Type == "joined" && l.Name == other.Name && !l.Local })
		at := time.Now()
		if err := b.cmd.Process.Signal(ask); err != nil {
			t.Fatal(err)
		}
		gone := a.expect(t, "b left", func(l line) bool { return l.Type == "left" && l.Name == other.Name })
		within(t, ask.String()+": the goodbye", at, gone.Time, 2*time.Second)
		b.ended(t)
	}
}
