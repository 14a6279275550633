package chat

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Interrupts returns a context that does not end with ctx, and a channel of the signals that ask a
// conversation to stop: SIGINT, SIGTERM and, unless it is ignored as under nohup, SIGHUP. Other
// commands end with the first signal; a conversation instead breaks the answer off and may go on.
// The caller must call stop, which unregisters the channel.
func Interrupts(ctx context.Context) (work context.Context, signals <-chan os.Signal, stop func()) {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		ends = append(ends, syscall.SIGHUP)
	}
	// signal.Notify drops signals that find the channel full; a conversation looks at two at most.
	got := make(chan os.Signal, 4)
	signal.Notify(got, ends...)
	return context.WithoutCancel(ctx), got, func() { signal.Stop(got) }
}

// Terminated returns a context that ends when the process is told to end: by SIGTERM, or by SIGHUP
// unless that is ignored. The caller must call stop.
func Terminated(ctx context.Context) (told context.Context, stop context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return signal.NotifyContext(ctx, syscall.SIGTERM)
	}
	return signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGHUP)
}
