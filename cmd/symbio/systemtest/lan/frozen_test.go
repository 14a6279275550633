//go:build system && linux

package lan_test

import (
	"testing"
	"time"

	"symbio/internal/community/waittest"

	"symbio/cmd/symbio/symbiotest"
	symbiov1 "symbio/proto/symbio/v1"
)

// A node whose process is stopped for longer than every timeout is unavailable and then left, and when it goes on it is
// there again as it was: nobody starts anything anew.
func TestFrozenNodeRecovers(t *testing.T) {
	t.Parallel() // among the first, by the name of its file: it waits for most of its 35 s
	symbiotest.OnASwitch(t, func(t *testing.T) {
		l := symbiotest.NewLab(t, symbiotest.PlugIn(t, 1), symbiotest.PlugIn(t, 2))
		a, b := l.Up(l.Hosts[0], "a"), l.Up(l.Hosts[1], "b")
		a.Ready()
		becomesWhole(t, "both see each other", b.Ready().Time, 2*time.Second, a, b)
		before := a.Sees()

		done := a.Calls(16, "slow", "b", nil)
		// A caller makes one call at a time: more than there are callers, and one of them has had its result.
		symbiotest.Await(t, "a call's result", func() bool { return len(b.LinesSince(time.Time{}, isServed)) > 16 })
		frozen := time.Now()
		b.Freeze()
		gone := a.Says("b is unavailable", frozen, func(l symbiotest.Line) bool { return l.Type == "became unavailable" && l.Name == "b" })
		symbiotest.Within(t, "the frozen node is unavailable", frozen, gone.Time, 4*time.Second)
		endedWell(t, done(), frozen, 4*time.Second)
		symbiotest.Await(t, "b has left", func() bool {
			return len(a.LinesSince(frozen, func(l symbiotest.Line) bool { return l.Type == "left" && l.Name == "b" })) > 0
		})
		t.Logf("the frozen node has left: %v", time.Since(frozen))

		thawed := time.Now()
		b.Thaw()
		becomesWhole(t, "both see each other after it goes on", thawed, 5*time.Second, a, b)
		if after := a.Sees(); after["b"] != before["b"] {
			t.Errorf("b is %s after it was frozen, want %s as before", after["b"], before["b"])
		}
		if _, err := a.Client.Call(waittest.Context(t), &symbiov1.CallRequest{Capability: "slow", On: "b"}); err != nil {
			t.Errorf("a call after it goes on: %v", err)
		}
	})
}

// The system of a killed node resets its connections: who waits for it is told at once.
func TestCallsToKilledNodeFailAtOnce(t *testing.T) {
	t.Parallel()
	symbiotest.OnASwitch(t, func(t *testing.T) {
		l := symbiotest.NewLab(t, symbiotest.PlugIn(t, 1), symbiotest.PlugIn(t, 2))
		a, b := l.Up(l.Hosts[0], "a"), l.Up(l.Hosts[1], "b")
		a.Ready()
		becomesWhole(t, "both see each other", b.Ready().Time, 2*time.Second, a, b)
		done := a.Calls(4, "slow", "b", nil)
		symbiotest.Await(t, "a call's result", func() bool { return len(b.LinesSince(time.Time{}, isServed)) > 4 })
		killed := time.Now()
		if err := b.Cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		endedWell(t, done(), killed, 100*time.Millisecond)
	})
}

func isServed(l symbiotest.Line) bool { return l.Type == "served" }
