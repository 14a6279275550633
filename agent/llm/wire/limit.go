package wire

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// limit ends a request when its current phase (connecting, first token, next token) takes too long. The timer runs in its own
// goroutine, so the phase is guarded by a lock.
type limit struct {
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	timer   *time.Timer   // guarded by mu
	phase   string        // guarded by mu
	atMost  time.Duration // guarded by mu
	stopped bool          // guarded by mu
}

// lateError is the cause of a context that a limit has ended. It names the phase.
type lateError struct {
	phase  string
	atMost time.Duration
}

func (e *lateError) Error() string { return fmt.Sprintf("%s took more than %v", e.phase, e.atMost) }

func startLimit(phase string, atMost time.Duration, cancel context.CancelCauseFunc) *limit {
	l := &limit{cancel: cancel, phase: phase, atMost: atMost}
	l.timer = time.AfterFunc(atMost, func() {
		l.mu.Lock()
		late := &lateError{l.phase, l.atMost}
		l.mu.Unlock()
		cancel(late)
	})
	return l
}

// set begins a phase. After stop it does nothing: net/http may report a connection late.
func (l *limit) set(phase string, atMost time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stopped {
		l.phase, l.atMost = phase, atMost
		l.timer.Reset(atMost)
	}
}

// stop ends the request and its clock.
func (l *limit) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	l.timer.Stop()
	l.cancel(nil)
}
