// Command crawl reads a web of pages, each page once, with a crawler for each link that shares its memory of links that have
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

// web has the links of each page. Two of them link back, which would be a loop without the memory.
// nowhere has no entry here: it stands for a page that cannot be read.
var web = map[string][]string{
	"home":  {"tides", "moon", "sun"},
	"tides": {"moon", "sun", "home"},
	"moon":  {"tides", "apollo"},
	"sun":   {"eclipse", "nowhere"},
}

// crawler reads a page and the pages that it links to, and returns their names. All crawlers share
// seen and failed, which belong to the first one.
type crawler struct {
	seen   step.Relay[step.Set[string]]
	failed step.Relay[[]string]
	// reads counts pages that were read, not links.
	reads *atomic.Int64
}

// Run returns page and the pages below it, which come first. A page that another crawler has read
// gives nil. The error of the page itself is returned; the errors of the pages below are only
// recorded.
func (c crawler) Run(ctx context.Context, page string) ([]string, error) {
	// Insert is atomic: of several crawlers that arrive at once, only one reads the page.
	if !step.Insert(c.seen, page) {
		return nil, nil
	}
	c.reads.Add(1)
	if page == "nowhere" {
		return nil, errors.New("no such page")
	}
	// c is a step, so it can run itself for the pages below. The recursion ends because Insert lets
	// each page through once.
	forgiving := step.Catch(func(_ context.Context, page string, err error) ([]string, error) {
		step.Append(c.failed, fmt.Sprintf("%s: %v", page, err))
		return nil, nil
	}, c)
	// Four links are followed at a time. A page that fails is recorded and does not end the crawl.
	below, err := step.Map(4, forgiving).Run(ctx, web[page])
	return append(slices.Concat(below...), page), err
}

func main() {
	// The zero Memory is ready. It is kept here, and the crawlers get a Relay, which can be copied.
	var seen step.Memory[step.Set[string]]
	var failed step.Memory[[]string]
	var reads atomic.Int64

	// The crawlers finish in any order, so the pages are sorted to make the output the same at each
	// run.
	orchestrator := step.Chain2(
		crawler{seen.Relay(), failed.Relay(), &reads},
		step.Transform(func(pages []string) []string { return slices.Sorted(slices.Values(pages)) }),
	)
	pages, err := orchestrator.Run(context.Background(), "home")
	fmt.Println(pages, err)
	fmt.Println(reads.Load(), "read,", len(seen.Get()), "seen,", failed.Get())
}
