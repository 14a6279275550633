package grpcpeer

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// A candidate that is dropped while it waits for its turn holds its goroutine no longer.
func TestDroppedCandidateDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := newCandidates(&local{life: &lifetime{search: ctx}}, nil)
		for about, wait := range map[string]func(k *candidate){
			"after a dial":      func(k *candidate) { n.wait(k, time.Now(), pause{length: time.Hour}) },
			"after a refusal":   func(k *candidate) { n.wait(k, time.Now(), pause{length: time.Hour, ignoreHints: true}) },
			"for another's end": func(k *candidate) { n.waitForEnd(k, &link{ended: make(chan struct{})}) },
		} {
			k := &candidate{key: "x", changed: make(chan struct{}, 1), dropped: make(chan struct{})}
			n.byKey["x"] = k
			begun, done := time.Now(), make(chan struct{})
			go func() { wait(k); close(done) }()
			synctest.Wait()
			n.mu.Lock()
			n.drop(k)
			n.mu.Unlock()
			select {
			case <-done:
			case <-time.After(2 * time.Hour):
				t.Fatalf("%s: it waits for ever", about)
			}
			if took := time.Since(begun); took != 0 || len(n.byKey) != 0 {
				t.Errorf("%s: it waited for %v, and %d are kept", about, took, len(n.byKey))
			}
		}
	})
}

// A flood of connections is cut off at once, when all that may be told why are being told.
func TestRejectedConnectionDoesNotHoldTheListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newLimitListener(at("10.0.0.1:7946"), 1, nil)
		for range cap(d.rejectSlots) {
			d.rejectSlots <- struct{}{}
		}
		near, far := net.Pipe()
		d.reject(near)
		if _, err := far.Read(make([]byte, 1)); err == nil {
			t.Error("it was told something")
		}
	})
}
