package tool

import (
	"slices"

	"symbio/agent/llm"
)

// describe returns the descriptions of the tools; see Set.Specs. Concurrent calls may compute the
// same list twice.
func (c *catalog) describe() []llm.ToolSpec {
	k := c.kit.Load()
	if last := c.specs.Load(); last != nil && c.isUnchanged(k, *last) {
		return *last
	}
	names := c.shown(k)
	specs := make([]llm.ToolSpec, 0, len(names))
	if c.searching(names) {
		specs = append(specs, c.describeSearch(c.hidden(names)))
		names = c.loadedOf(names)
	}
	for _, n := range names {
		specs = append(specs, k.tools[n].Spec())
	}
	c.specs.Store(&specs)
	return specs
}

// isUnchanged reports whether specs are still the descriptions to show, and no tool is hidden
// behind ToolSearch.
func (c *catalog) isUnchanged(k *toolMap, specs []llm.ToolSpec) bool {
	if c.searching(k.names) {
		return false
	}
	i := 0
	for _, n := range k.names {
		t := k.tools[n]
		if absent(t) || c.cfg.Show != nil && !c.cfg.Show(n) {
			continue
		}
		if i == len(specs) || !same(specs[i], t.Spec()) {
			return false
		}
		i++
	}
	return i == len(specs)
}

// same reports whether two descriptions are equal. Schemas are compared by address, which is enough
// because they are never written to.
func same(a, b llm.ToolSpec) bool {
	if a.Name != b.Name || a.Description != b.Description || len(a.Schema) != len(b.Schema) {
		return false
	}
	return len(a.Schema) == 0 || &a.Schema[0] == &b.Schema[0]
}

// shown returns the names of the tools that exist now and that CatalogConfig.Show accepts.
func (c *catalog) shown(k *toolMap) []string {
	names := k.available()
	if c.cfg.Show == nil {
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !c.cfg.Show(n) })
}
