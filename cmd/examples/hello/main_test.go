package main

import (
	"context"
	"fmt"
	"os"

	"symbio/agent/node"
	"symbio/agent/step"
)

// The capability is invoked by a second node, as symbio invoke does.
func Example() {
	dir, err := os.MkdirTemp("", "sy") // short: the control socket lives below it
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- run(ctx, node.Config{State: node.StateDir(dir), Host: "hello"}) }()

	other, err := node.New(node.Config{State: node.StateDir(dir), Host: "other"})
	if err != nil {
		panic(err)
	}
	changes := other.Community().Subscribe()
	defer changes.Close()
	go func() { ended <- other.Run(ctx) }()
	for len(other.Community().WhoProvides("text.count")) == 0 {
		if _, err := changes.Next(ctx); err != nil {
			panic(err)
		}
	}
	count := step.With(step.NewCluster(other.Community()), step.Capability[string, int]("text.count"))
	fmt.Println(count.Run(ctx, "how many words"))
	stop()
	fmt.Println(<-ended, <-ended)
	// Output:
	// 3 <nil>
	// <nil> <nil>
}
