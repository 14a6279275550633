//go:build unix

package node_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"symbio/agent/llm"
	"symbio/agent/node"
	"symbio/agent/node/config"
	"symbio/agent/session"
	"symbio/internal/agent/node/state"
	"symbio/internal/agent/session/sqlite"
)

// BenchmarkOpen is the time until a node can be used whose file of sessions has 1 GiB. x-empty is its ratio to
// the time of a node without sessions. The bar is 2.
func BenchmarkOpen(b *testing.B) {
	if testing.Short() {
		b.Skip("-short leaves it out: it writes 1 GiB")
	}
	dir, err := os.MkdirTemp("", "sy") // short: sockets live below it
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(dir)
	dirs := []string{filepath.Join(dir, "empty"), filepath.Join(dir, "full")}
	for _, d := range dirs {
		openNode(b, d) // makes the keys, which the node has later
	}
	file := state.Dir(dirs[1]).Node("one").Sessions()
	fillSessions(b, file, dirs[1], 1<<30)
	var took [2][]time.Duration
	for round := 0; b.Loop(); round++ {
		for n := range dirs {
			at := (n + round) % len(dirs) // not always after the same one
			took[at] = append(took[at], openNode(b, dirs[at]))
		}
	}
	info, err := os.Stat(file)
	if err != nil || info.Size() < 1<<30 {
		b.Fatalf("the file of the sessions is %v, %v", info, err)
	}
	for _, t := range took {
		slices.Sort(t)
	}
	middle := len(took[0]) / 2
	b.ReportMetric(float64(took[1][middle])/float64(took[0][middle]), "x-empty")
	b.ReportMetric(float64(took[1][middle].Microseconds())/1000, "ms/open")
}

// openNode starts a node, stops it, and returns how long it took until the node could be used.
func openNode(b *testing.B, dir string) time.Duration {
	b.Helper()
	c := config.Default()
	c.Node.Name, c.Node.Listen, c.Discovery.MDNS = "one", "127.0.0.1:0", false
	c.Directories, c.Skills.Enabled = nil, false
	c.Session.Max = 4 << 30 // above what the file has: its sessions stay
	start := time.Now()
	n, err := node.New(node.Config{Settings: c, State: state.Dir(dir), Dir: dir, Home: dir, Host: "one", Getenv: func(string) string { return "" }})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	select {
	case <-n.Ready():
	case err := <-ended:
		b.Fatal(err)
	}
	took := time.Since(start)
	stop()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	return took
}

// fillSessions writes sessions of 1 MiB in a directory until there are so many bytes. One of a hundred was interrupted.
func fillSessions(b *testing.B, file, workspace string, size int) {
	b.Helper()
	store, err := sqlite.Open(file)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			b.Error(err)
		}
	}()
	const each, result = 1 << 20, 16 << 10
	random := rand.New(rand.NewPCG(1, 2))
	output := make([]byte, result)
	for n := range size/each + 1 {
		id := fmt.Sprintf("s%09d", n)
		now := time.Now().UTC()
		info := session.Info{ID: id, Root: id, Dir: workspace, Title: "What is the weather?", State: session.Done, Created: now, Updated: now}
		if n%100 == 0 {
			info.State, info.Exchange.Open = session.Interrupted, true
		}
		entries := []session.Entry{{Kind: session.Task, Time: now, Message: &llm.Message{Role: llm.User, Text: "What is the weather?"}}}
		for range each / result {
			for i := range output {
				output[i] = 'a' + byte(random.Uint32()%26)
			}
			entries = append(entries, session.Entry{Kind: session.Result, Time: now, Result: &llm.ToolResult{CallID: "1", Text: string(output)}},
				session.Entry{Kind: session.Answer, Time: now, Message: &llm.Message{Role: llm.Assistant, Text: fmt.Sprintf("It is sunny in town %d.", random.IntN(2000))}})
		}
		if err := store.Commit([]session.Write{{Info: info, Entries: entries}}); err != nil {
			b.Fatal(err)
		}
	}
}
