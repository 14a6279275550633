package tool

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"symbio/agent/llm"
)

// catalog holds the tools of a Set and what the model is shown of them. It is safe for concurrent
// use: readers load toolMap without a lock, because describe runs in every turn.
type catalog struct {
	show        func(name string) bool // nil = all
	searchAbove int
	isBrief     func() bool                    // SetConfig.Brief
	isEssential func(name string) bool         // SetConfig.Essential; nil = all
	own         *toolMap                       // that the Set was made of
	kit         atomic.Pointer[toolMap]        // own and the dynamic ones
	finder      Tool                           // ToolSearch
	specs       atomic.Pointer[[]llm.ToolSpec] // what describe returned the last time
	brief       atomic.Pointer[briefSpecs]     // what describeBriefly returned the last time

	mu     sync.Mutex
	loaded []string // tools that ToolSearch has loaded, the latest last; guarded by mu
}

// newCatalog returns a catalog with the fixed tools of a Set.
func newCatalog(cfg SetConfig, tools []Tool) *catalog {
	c := &catalog{show: cfg.Show, searchAbove: cfg.SearchAbove, isBrief: cfg.Brief, isEssential: cfg.Essential,
		own: &toolMap{make(map[string]Tool, len(tools)), make([]string, 0, len(tools))}}
	if c.isBrief == nil {
		c.isBrief = func() bool { return false }
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
	name := t.Spec().Name
	if k.tools[name] == nil {
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
