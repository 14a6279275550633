//go:build system && linux

package lan_test

import (
	"testing"
	"time"

	"symbio/cmd/symbio/symbiotest"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
)

// whole says whether each of the nodes sees all the others.
func whole(nodes ...*symbiotest.LabNode) bool {
	for _, n := range nodes {
		seen := n.Sees()
		for _, other := range nodes {
			if n != other && seen[other.Name] == "" {
				return false
			}
		}
	}
	return true
}

// becomesWhole waits until each of the nodes sees all the others, prints how long that took, and wants it to keep the
// promise.
func becomesWhole(t *testing.T, what string, since time.Time, promise time.Duration, nodes ...*symbiotest.LabNode) {
	t.Helper()
	symbiotest.Await(t, what, func() bool { return whole(nodes...) })
	symbiotest.Within(t, what, since, time.Now(), promise)
}

// endedWell wants every call to have had a result or the error that its node is unavailable, and those under way at
// a time to have ended within the promise. It prints how many there were.
func endedWell(t *testing.T, calls []symbiotest.Call, at time.Time, promise time.Duration) {
	t.Helper()
	results, cut, last := 0, 0, at
	for _, c := range calls {
		switch {
		case c.Err == nil:
			results++
		case grpcstatus.Code(c.Err) == codes.Unavailable:
			cut++
		default:
			t.Errorf("a call ended with %v, want a result or that the node is unavailable", c.Err)
		}
		if c.Begun.Before(at) && c.Ended.After(last) {
			last = c.Ended
		}
	}
	t.Logf("%d calls: %d results, %d ended as unavailable", len(calls), results, cut)
	if results == 0 || cut == 0 {
		t.Errorf("%d results and %d calls that were cut off, want some of both", results, cut)
	}
	symbiotest.Within(t, "the last call under way ended", at, last, promise)
}
