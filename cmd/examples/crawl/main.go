// Command crawl reads a web of pages, each page once, with a crawler for each link that shares its memory of what has
// been seen with the one that sent it. The web is a map here, so that no network is needed.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"symbio/agent/step"
)

// web is pages with their links. Two of them link back.
var web = map[string][]string{
	"home":  {"tides", "moon", "sun"},
	"tides": {"moon", "sun", "home"},
	"moon":  {"tides", "apollo"},
	"sun":   {"eclipse", "nowhere"},
}

// crawler reads a page and those it links to, and gives their names. Seen belongs to whoever began.
type crawler struct {
	seen   step.Relay[step.Set[string]]
	failed step.Relay[[]string]
	reads  *atomic.Int64
}

func (c crawler) Run(ctx context.Context, page string) ([]string, error) {
	if !step.Insert(c.seen, page) {
		return nil, nil // of several that come here at once, one goes on
	}
	c.reads.Add(1)
	if page == "nowhere" {
		return nil, errors.New("no such page")
	}
	forgiving := step.Catch(func(_ context.Context, page string, err error) ([]string, error) {
		step.Append(c.failed, fmt.Sprintf("%s: %v", page, err))
		return nil, nil
	}, c)
	below, err := step.Map(4, forgiving).Run(ctx, web[page])
	return append(slices.Concat(below...), page), err
}

func main() {
	var seen step.Memory[step.Set[string]]
	var failed step.Memory[[]string]
	var reads atomic.Int64

	orchestrator := step.Chain2(
		crawler{seen.Relay(), failed.Relay(), &reads},
		step.Transform(func(pages []string) []string { return slices.Sorted(slices.Values(pages)) }),
	)
	pages, err := orchestrator.Run(context.Background(), "home")
	fmt.Println(pages, err)
	fmt.Println(reads.Load(), "read,", len(seen.Get()), "seen,", failed.Get())
}
