//go:build system && linux

package lan_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"symbio/cmd/symbio/symbiotest"
)

// up starts a node with no flags but the one that makes it print.
func up(t *testing.T, state string) *symbiotest.Process {
	t.Helper()
	cmd := exec.Command("symbio", "up", "--json")
	cmd.Env = append(os.Environ(), "HOME="+state, "XDG_STATE_HOME="+state, "XDG_CONFIG_HOME="+state)
	return symbiotest.Started(t, cmd)
}

// Two nodes that were told nothing find each other by mDNS on loopback, and one that is killed is
// noticed within the time of the failure table. The promises are 2 s and 3 s; a hundredth is usual.
func TestTwoNodesDetectKilledNode(t *testing.T) {
	state := symbiotest.ShortDir(t)
	a := up(t, state)
	ready := a.Expect(t, "ready", func(l symbiotest.Line) bool { return l.Type == "ready" })
	b := up(t, state)
	other := b.Expect(t, "ready", func(l symbiotest.Line) bool { return l.Type == "ready" })
	if ready.Name == other.Name || ready.ID == other.ID {
		t.Fatalf("two nodes are both %s %s", ready.Name, ready.ID)
	}
	at := time.Now()
	met := a.Expect(t, "b joined", func(l symbiotest.Line) bool { return l.Type == "joined" && l.Name == other.Name && !l.Local })
	symbiotest.Within(t, "a saw b", at, met.Time, 2*time.Second)
	at = time.Now()
	if err := b.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	lost := a.Expect(t, "b became unavailable", func(l symbiotest.Line) bool { return l.Type == "became unavailable" && l.Name == other.Name })
	symbiotest.Within(t, "a noticed the death of b", at, lost.Time, 3*time.Second)
}

// A stop says goodbye and ends in time, if a person or a service manager asks for it. (The terminal that is closed is in
// TestNodeEndsWithItsTerminal: elsewhere its signal has the rules read again.)
func TestNodeEndsAtOnceOnSignal(t *testing.T) {
	state := symbiotest.ShortDir(t)
	a := up(t, state)
	a.Expect(t, "ready", func(l symbiotest.Line) bool { return l.Type == "ready" })
	for _, ask := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		b := up(t, state)
		other := b.Expect(t, "ready", func(l symbiotest.Line) bool { return l.Type == "ready" })
		a.Expect(t, "b joined", func(l symbiotest.Line) bool { return l.Type == "joined" && l.Name == other.Name && !l.Local })
		at := time.Now()
		if err := b.Cmd.Process.Signal(ask); err != nil {
			t.Fatal(err)
		}
		gone := a.Expect(t, "b left", func(l symbiotest.Line) bool { return l.Type == "left" && l.Name == other.Name })
		symbiotest.Within(t, ask.String()+": the goodbye", at, gone.Time, 2*time.Second)
		b.Ended(t)
	}
}
