// Symbio turns the machines on a LAN into one community of agents. `symbio --help` says how.
package main

import (
	"os"

	"symbio/cmd/symbio/internal/cli"
)

func main() { os.Exit(cli.Run(os.Args[1:])) }
