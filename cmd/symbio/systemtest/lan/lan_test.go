//go:build system && linux

package lan_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"symbio/cmd/symbio/symbiotest"
)

// Three machines, one `cluster init`, two pasted lines: one community that notices who comes, leaves,
// dies and returns, in the times of the failure table (architecture).
func TestThreeMachinesOnALANBecomeOneCluster(t *testing.T) {
	t.Parallel()
	symbiotest.OnASwitch(t, func(t *testing.T) {
		a, b, c := symbiotest.PlugIn(t, 1), symbiotest.PlugIn(t, 2), symbiotest.PlugIn(t, 3)
		listen := func(h *symbiotest.Host) string { return fmt.Sprintf("10.77.0.%d:7946", h.Number) }
		a.Symbio("cluster", "init", "--name", "lab", "--node", a.Name(), "--listen", listen(a))
		nodes := map[*symbiotest.Host]*symbiotest.Process{a: a.Up()}
		nodes[a].Expect(t, "ready", func(l symbiotest.Line) bool { return l.Type == "ready" })
		for _, h := range []*symbiotest.Host{b, c} {
			line := a.Symbio("cluster", "token", "--node", a.Name())
			pasted := regexp.MustCompile(`symbio (cluster join SYM1-\S+ \S+)`).FindStringSubmatch(line)
			if pasted == nil {
				t.Fatalf("no line to paste in %q", line)
			}
			h.Symbio(append(strings.Fields(pasted[1]), "--node", h.Name(), "--listen", listen(h))...)
			nodes[h] = h.Up()
		}
		nodes[c].Expect(t, "ready", func(l symbiotest.Line) bool { return l.Type == "ready" })
		begun := time.Now()
		var last time.Time
		for on, others := range map[*symbiotest.Host][]string{a: {b.Name(), c.Name()}, b: {a.Name(), c.Name()}, c: {a.Name(), b.Name()}} {
			for len(others) > 0 {
				l := nodes[on].Expect(t, fmt.Sprintf("%v joined", others), func(l symbiotest.Line) bool { return l.Type == "joined" && slices.Contains(others, l.Name) })
				others = slices.DeleteFunc(others, func(name string) bool { return name == l.Name })
				if l.Time.After(last) {
					last = l.Time
				}
			}
		}
		symbiotest.Within(t, "all see all after the last is ready", begun, last, 2*time.Second)

		t.Run("a graceful leave", func(t *testing.T) {
			at := time.Now()
			if err := nodes[c].Cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			l := nodes[a].Expect(t, "host3 left", func(l symbiotest.Line) bool { return l.Type == "left" && l.Name == c.Name() })
			symbiotest.Within(t, "a leave is noticed", at, l.Time, 200*time.Millisecond)
			nodes[c].Ended(t)
		})

		t.Run("starts", func(t *testing.T) {
			var times []time.Duration
			starts := 3
			if symbiotest.Promised() {
				starts = 20 // a figure needs as many
			}
			for range starts {
				at := time.Now()
				p := c.Up()
				l := nodes[a].Expect(t, "host3 joined", func(l symbiotest.Line) bool { return l.Type == "joined" && l.Name == c.Name() })
				times = append(times, l.Time.Sub(at))
				if err := p.Cmd.Process.Signal(os.Interrupt); err != nil {
					t.Fatal(err)
				}
				nodes[a].Expect(t, "host3 left", func(l symbiotest.Line) bool { return l.Type == "left" && l.Name == c.Name() })
				p.Ended(t)
			}
			slices.Sort(times)
			p95 := times[len(times)*9/10]
			t.Logf("a start is noticed: p50 %v, p95 %v, max %v", times[len(times)/2], p95, times[len(times)-1])
			if symbiotest.Promised() && p95 > symbiotest.Slow*time.Second {
				t.Errorf("p95 of discovery after a start is %v, want under %v", p95, symbiotest.Slow*time.Second)
			}
		})

		t.Run("a pulled cable", func(t *testing.T) {
			at := time.Now()
			b.Cable(false)
			l := nodes[a].Expect(t, "host2 unavailable", func(l symbiotest.Line) bool { return l.Type == "became unavailable" && l.Name == b.Name() })
			symbiotest.Within(t, "a pulled cable is noticed", at, l.Time, 4*time.Second)
			// The other side notices by its own clock, and only then can it see the node come back.
			nodes[b].Expect(t, "host1 unavailable", func(l symbiotest.Line) bool { return l.Type == "became unavailable" && l.Name == a.Name() })
			b.Cable(true)
			at = time.Now()
			l = nodes[a].Expect(t, "host2 available", func(l symbiotest.Line) bool { return l.Type == "became available" && l.Name == b.Name() })
			other := nodes[b].Expect(t, "host1 available", func(l symbiotest.Line) bool { return l.Type == "became available" && l.Name == a.Name() })
			if other.Time.After(l.Time) {
				l = other
			}
			symbiotest.Within(t, "both are whole again after the heal", at, l.Time, 5*time.Second)
		})

		t.Run("kill -9", func(t *testing.T) {
			at := time.Now()
			if err := nodes[b].Cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			l := nodes[a].Expect(t, "host2 unavailable", func(l symbiotest.Line) bool { return l.Type == "became unavailable" && l.Name == b.Name() })
			symbiotest.Within(t, "a death is noticed", at, l.Time, 3*time.Second)
		})
	})
}

// A node of another cluster on the same LAN is seen by nobody and hears nobody.
func TestForeignNodeOnLANIsNotAdmitted(t *testing.T) {
	t.Parallel()
	symbiotest.OnASwitch(t, func(t *testing.T) {
		a, b := symbiotest.PlugIn(t, 1), symbiotest.PlugIn(t, 2)
		for _, h := range []*symbiotest.Host{a, b} {
			h.Symbio("cluster", "init", "--name", "lab", "--node", h.Name(), "--listen", fmt.Sprintf("10.77.0.%d:7946", h.Number))
		}
		mine := a.Up()
		mine.Expect(t, "ready", func(l symbiotest.Line) bool { return l.Type == "ready" })
		// The stranger is told our address, so that it does more than mDNS would have it do.
		stranger := symbiotest.Started(t, b.Inside("symbio", "up", "--json", "--name", b.Name(), "--peer", "10.77.0.1:7946"))
		refused := mine.Expect(t, "a refusal", func(l symbiotest.Line) bool { return l.Type == "refused" })
		t.Logf("refused: %+v", refused)
		for _, p := range []*symbiotest.Process{mine, stranger} {
			for len(p.Lines) > 0 {
				if l := <-p.Lines; l.Type == "joined" {
					t.Errorf("%s joined", l.Name)
				}
			}
		}
		if out := a.Symbio("members", "--json"); strings.TrimSpace(out) != "[]" {
			t.Errorf("members = %s, want none", filepath.Clean(out))
		}
	})
}
