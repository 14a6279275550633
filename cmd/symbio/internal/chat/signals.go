package chat

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Interrupts are the signals that ask a conversation to stop, or to end. The context it returns does not end with the
// first of them, as that of other commands does: an answer can be broken off and the conversation go on. stop gives
// them back.
func Interrupts(ctx context.Context) (work context.Context, signals <-chan os.Signal, stop func()) {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		ends = append(ends, syscall.SIGHUP)
	}
	got := make(chan os.Signal, 4) // more than are looked at
	signal.Notify(got, ends...)
	return context.WithoutCancel(ctx), got, func() { signal.Stop(got) }
}
