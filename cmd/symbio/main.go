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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	return cli.Main(ctx, os.Args[1:], cli.Terminal())
}
