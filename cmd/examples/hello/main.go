// Command hello runs a node that counts words for the other nodes. It finds them, and they find it, as with symbio up.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"strings"

	"symbio/agent/node"
	"symbio/community"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, node.Config{})
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// run offers text.count to the other nodes until ctx ends. The zero Config is the one of symbio up without a file.
func run(ctx context.Context, cfg node.Config) error {
	return node.Run(ctx, cfg, func(ctx context.Context, n *node.Node) error {
		count := community.Capability{Name: "text.count", Description: "Counts the words of a text"}
		words := func(_ context.Context, text string) (int, error) { return len(strings.Fields(text)), nil }
		if err := node.Offer(n, count, words); err != nil {
			return err
		}
		log.Print("text.count can be invoked by other nodes, until Ctrl-C")
		<-ctx.Done() // the node runs until then
		return nil
	})
}
