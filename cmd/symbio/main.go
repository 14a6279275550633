// Symbio turns the machines on a LAN into one community of agents. `symbio --help` says how.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"symbio/cmd/symbio/internal/cli"
)

func main() {
	os.Exit(run())
}

// run runs the command line until it ends or a signal cancels its context, and returns the exit
// status. It is apart from main so that deferred calls run before os.Exit.
func run() int {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	// Under nohup SIGHUP is ignored, and closing the terminal must not end the command.
	if !signal.Ignored(syscall.SIGHUP) {
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	defer stop()
	// stop restores the default handling of signals, so that a second Ctrl-C ends a process that
	// hangs.
	context.AfterFunc(ctx, stop)
	return cli.Main(ctx, os.Args[1:])
}
