package tool

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"symbio/agent/llm"
)

// catalog is the tools of a Set and what its model is shown of them. It is safe for many goroutines.
type catalog struct {
	show        func(name string) bool // nil = all
	searchAbove int
	own         *toolMap                       // that the Set was made of
	kit         atomic.Pointer[toolMap]        // own and the dynamic ones
	finder      Tool                           // ToolSearch
	specs       atomic.Pointer[[]llm.ToolSpec] // what describe returned the last time

	mu     sync.Mutex
	loaded []string // tools that ToolSearch has loaded, the latest last; guarded by mu
}

func newCatalog(cfg SetConfig, tools []Tool) *catalog {
	c := &catalog{show: cfg.Show, searchAbove: cfg.SearchAbove, own: &toolMap{tools: map[string]Tool{}}}
	for _, t := range tools {
		c.own.add(t)
	}
	c.kit.Store(c.own)
	c.finder = describingTool{searchKind.New(c.search)}
	return c
}

func (c *catalog) setDynamic(more []Tool) {
	if len(more) == 0 {
		c.kit.Store(c.own)
		return
	}
	now := c.own.clone()
	for _, t := range more {
		now.add(t)
	}
	c.kit.Store(now)
}

// toolMap is tools by name. It does not change once a Set has it.
type toolMap struct {
	tools map[string]Tool
	names []string // in the order given
}

func (k *toolMap) clone() *toolMap { return &toolMap{maps.Clone(k.tools), slices.Clone(k.names)} }

// add is without effect for a second tool of a name.
func (k *toolMap) add(t Tool) {
	name := t.Spec().Name
	if k.tools[name] == nil {
		k.tools[name] = t
		k.names = append(k.names, name)
	}
}

// available names the tools that are there now.
func (k *toolMap) available() []string {
	missing := func(n string) bool { return absent(k.tools[n]) }
	if !slices.ContainsFunc(k.names, missing) {
		return k.names
	}
	return slices.DeleteFunc(slices.Clone(k.names), missing)
}

func absent(t Tool) bool {
	c, conditional := t.(Conditional)
	return conditional && !c.Offered()
}
