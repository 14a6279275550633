package actor

import (
	"errors"
	"fmt"
	"log/slog"
)

var (
	// ErrBusy says that the actor's mailbox is full. The message was not queued; nothing of it happened.
	ErrBusy = errors.New("actor is busy: its mailbox is full")
	// ErrStopped says that the actor, or the whole System, is stopping or has stopped. A message refused
	// with it was not handled, or only begun (see Ref.Ask).
	ErrStopped = errors.New("it was stopped")
	// ErrNoActor says that there is no such actor (any more). When the actor existed and has ended, the
	// error is ErrStopped as well.
	ErrNoActor = errors.New("no such actor")
	// ErrPanicked says that Receive panicked while it handled the message. How much of the work was done
	// is not known.
	ErrPanicked = errors.New("actor panicked")
	// ErrNameTaken says that a living actor has the name.
	ErrNameTaken = errors.New("actor name is taken")
	// ErrFailing is what Props.Stopped is given when an actor failed too often to be restarted again.
	ErrFailing = errors.New("actor failed too often")

	// errEnded answers a call that found its actor gone.
	errEnded = fmt.Errorf("%w: %w", ErrNoActor, ErrStopped)
)

// PanicError is the answer to a message whose Receive panicked; it is ErrPanicked to errors.Is. What
// the panic said is for the log of this machine only, so Error leaves it out.
type PanicError struct {
	Actor string // name of the actor
	Value any    // what Receive panicked with
	Stack []byte // of the goroutine that panicked
}

func (e *PanicError) Error() string { return "actor " + e.Actor + " panicked" }

// Unwrap makes errors.Is find ErrPanicked.
func (e *PanicError) Unwrap() error { return ErrPanicked }

// LogValue gives a logger what Error keeps back.
func (e *PanicError) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("actor", e.Actor),
		slog.String("panic", fmt.Sprint(e.Value)),
		slog.String("stack", string(e.Stack)),
	)
}
