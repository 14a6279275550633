package wire

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// phaseTimer ends a request when its current phase (connecting, first token, next token) takes too
// long. A lock guards the phase, because the timer fires in a goroutine of its own.
type phaseTimer struct {
	// cancel ends the context of the request; the cause names the phase.
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	timer   *time.Timer   // guarded by mu
	phase   string        // guarded by mu
	timeout time.Duration // guarded by mu
	stopped bool          // guarded by mu
}

// phaseTimeoutError is the cause of a context that a phaseTimer has ended. It names the phase.
type phaseTimeoutError struct {
	phase   string
	timeout time.Duration
}

func (e *phaseTimeoutError) Error() string {
	return fmt.Sprintf("%s took more than %v", e.phase, e.timeout)
}

// startPhaseTimer starts the clock of the first phase. The caller must call stop, which also
// releases the context of the request.
func startPhaseTimer(phase string, atMost time.Duration, cancel context.CancelCauseFunc) *phaseTimer {
	l := &phaseTimer{cancel: cancel, phase: phase, timeout: atMost}
	l.timer = time.AfterFunc(atMost, func() {
		l.mu.Lock()
		late := &phaseTimeoutError{l.phase, l.timeout}
		l.mu.Unlock()
		cancel(late)
	})
	return l
}

// set begins a phase. After stop it has no effect, because net/http may report a connection late.
func (l *phaseTimer) set(phase string, atMost time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stopped {
		l.phase, l.timeout = phase, atMost
		l.timer.Reset(atMost)
	}
}

// stop ends the request and the timer. It may be called more than once. If the timer fires at the
// same time, the first of the two sets the cause.
func (l *phaseTimer) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	l.timer.Stop()
	l.cancel(nil)
}
