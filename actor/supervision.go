package actor

import (
	"fmt"
	"time"

	proto "github.com/asynkron/protoactor-go/actor"

	"symbio/internal/actor/backoff"
)

// failureState is what an actor needs once it has failed. Most actors never do, so it is allocated
// then.
type failureState struct {
	restart *time.Timer // set while the restart waits for its back-off
	why     error       // what Props.Stopped is told
}

// supervisor decides whether an actor that failed is restarted. Proto.Actor calls it after it has
// suspended the actor's mailbox.
type supervisor struct{ sys *System }

// HandleFailure runs on the goroutine of the actor that failed.
func (v *supervisor) HandleFailure(_ *proto.ActorSystem, up proto.Supervisor, pid *proto.PID, past *proto.RestartStatistics, reason, _ any) {
	r := v.sys.find(pid.Id)
	if r == nil {
		return
	}
	err, ok := reason.(error)
	if !ok {
		err = &PanicError{Actor: r.props.Name, Value: reason}
	}
	r.failed(err, past, func() { up.RestartChildren(pid) })
}

// failed schedules a restart after a back-off, or stops the actor when it failed more than
// Config.Restarts times within Config.Within. It runs on the goroutine of the actor; restart runs
// on a timer's.
func (r *Ref) failed(err error, past *proto.RestartStatistics, restart func()) {
	r.behavior = nil // whatever it held may be broken
	cfg := r.sys.cfg
	cfg.Logger.Error("actor failed", "actor", r.props.Name, "err", err)
	r.mu.Lock()
	if r.gate.closed() {
		r.mu.Unlock()
		return // the Stop is in the mailbox already
	}
	if r.failure == nil {
		r.failure = &failureState{}
	}
	if past.NumberOfFailures(cfg.Within) == 0 {
		past.Reset() // it forgets nothing by itself
	}
	past.Fail()
	n := past.NumberOfFailures(cfg.Within)
	if n > cfg.Restarts {
		r.mu.Unlock()
		r.close(fmt.Errorf("%w: %d failures within %v, the last one: %w", ErrFailing, n, cfg.Within, err))
		return
	}
	defer r.mu.Unlock()
	r.sys.timers.Add(1)
	r.failure.restart = time.AfterFunc(backoff.Delay(n, cfg.BackOff, cfg.MaxBackOff), func() {
		defer r.sys.timers.Done()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.failure.restart = nil
		if !r.gate.closed() {
			restart()
		}
	})
}

// cancelRestart cancels a restart that waits for its back-off. The caller holds r.mu, and r.failure
// is not nil.
func (r *Ref) cancelRestart() {
	if t := r.failure.restart; t != nil && t.Stop() {
		r.sys.timers.Done()
	}
	r.failure.restart = nil
}
