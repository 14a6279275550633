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

func run() int {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		ends = append(ends, syscall.SIGHUP) // the terminal was closed
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	return cli.Main(ctx, os.Args[1:])
}
