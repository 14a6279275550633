package tool

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"symbio/agent/llm"
)

// CatalogConfig sets up what the model is told of the tools of a Set. The zero value is usable.
type CatalogConfig struct {
	// Show reports whether the model is told of a tool. Others can still be called, and are judged.
	// Default: all are shown.
	Show func(name string) bool
	// SearchAbove is the number of tools up to which all are described to the model. If there are
	// more, it is shown the agent's own tools, ToolSearch, and the tools that it has loaded.
	// Default: 40, about 10,000 tokens in each request; models also choose worse among more.
	SearchAbove int
	// Brief reports whether the model is to be shown little, because its window is small: one sentence
	// for each tool, and ToolSearch in the place of the tools for which Essential returns false.
	// Default: never, and all tools are essential.
	Brief     func() bool
	Essential func(name string) bool
}

// catalog holds the tools of a Set and what the model is shown of them. It is safe for concurrent
// use: readers load toolMap without a lock, because describe runs in every turn.
type catalog struct {
	cfg    CatalogConfig                  // Brief is set
	own    *toolMap                       // that the Set was made of
	kit    atomic.Pointer[toolMap]        // own and the dynamic ones
	finder Tool                           // ToolSearch
	specs  atomic.Pointer[[]llm.ToolSpec] // what describe returned the last time
	brief  atomic.Pointer[briefSpecs]     // what describeBriefly returned the last time

	mu     sync.Mutex
	loaded []string // tools that ToolSearch has loaded, the latest last; guarded by mu
}

// newCatalog returns a catalog with the fixed tools of a Set.
func newCatalog(cfg CatalogConfig, tools []Tool) *catalog {
	c := &catalog{cfg: cfg, own: &toolMap{make(map[string]Tool, len(tools)), make([]string, 0, len(tools))}}
	if c.cfg.SearchAbove <= 0 {
		c.cfg.SearchAbove = 40
	}
	if c.cfg.Brief == nil {
		c.cfg.Brief = func() bool { return false }
	}
	for _, t := range tools {
		c.own.add(t)
	}
	c.kit.Store(c.own)
	c.finder = describingTool{searchKind.New(c.search)}
	return c
}

// setDynamic replaces the dynamic tools; see Set.SetDynamic.
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

// clone returns a copy to which tools can be added.
func (k *toolMap) clone() *toolMap { return &toolMap{maps.Clone(k.tools), slices.Clone(k.names)} }

// add adds a tool. It ignores a second tool of the same name, so that a dynamic tool cannot replace
// one of the agent's own.
func (k *toolMap) add(t Tool) {
	if name := t.Spec().Name; k.tools[name] == nil {
		k.tools[name] = t
		k.names = append(k.names, name)
	}
}

// available returns the names of the tools that can be called now, without those whose
// Conditional.Offered is false.
func (k *toolMap) available() []string {
	missing := func(n string) bool { return absent(k.tools[n]) }
	if !slices.ContainsFunc(k.names, missing) {
		return k.names
	}
	return slices.DeleteFunc(slices.Clone(k.names), missing)
}

// absent reports whether t is Conditional and not offered now.
func absent(t Tool) bool {
	c, conditional := t.(Conditional)
	return conditional && !c.Offered()
}
