//go:build linux

package main

import (
	"testing"
	"time"
)

// A node whose process is stopped for longer than every timeout is unavailable and then left, and when it goes on it is
// there again as it was: nobody starts anything anew.
func TestFrozenNodeRecovers(t *testing.T) {
	t.Parallel() // among the first, by the name of its file: it waits for most of its 35 s
	onASwitch(t, func(t *testing.T) {
		l := newLab(t, plugIn(t, 1), plugIn(t, 2))
		a, b := l.up(l.hosts[0], "a"), l.up(l.hosts[1], "b")
		a.ready()
		becomesWhole(t, "both see each other", b.ready().Time, 2*time.Second, a, b)
		before := a.sees()

		done := a.calls(16, "slow", "b", nil)
		// A caller makes one call at a time: more than there are callers, and one of them has had its result.
		await(t, "a call's result", limit, func() bool { return len(b.heard(time.Time{}, isServed)) > 16 })
		frozen := time.Now()
		b.freeze()
		gone := a.says("b is unavailable", frozen, func(l line) bool { return l.Type == "became unavailable" && l.Name == "b" })
		within(t, "the frozen node is unavailable", frozen, gone.Time, 4*time.Second)
		endedWell(t, done(), frozen, 4*time.Second)
		await(t, "b has left", 40*time.Second, func() bool {
			return len(a.heard(frozen, func(l line) bool { return l.Type == "left" && l.Name == "b" })) > 0
		})
		t.Logf("the frozen node has left: %v", time.Since(frozen))

		thawed := time.Now()
		b.thaw()
		becomesWhole(t, "both see each other after it goes on", thawed, 5*time.Second, a, b)
		if after := a.sees(); after["b"] != before["b"] {
			t.Errorf("b is %s after it was frozen, want %s as before", after["b"], before["b"])
		}
	})
}

func isServed(l line) bool { return l.Type == "served" }
