package tool

import (
	"slices"

	"symbio/agent/llm"
)

// Specs describes the tools for a model, in the order they were given; of very many only how to find them, and
// those that it has found (SetConfig.SearchAbove). It is asked in every turn, and while nothing changes the answer is the
// same slice: it is not to be written to.
func (s *Set) Specs() []llm.ToolSpec {
	k := s.kit.Load()
	if last := s.specs.Load(); last != nil && s.still(k, *last) {
		return *last
	}
	names := s.shown(k)
	specs := make([]llm.ToolSpec, 0, len(names))
	if s.searching(names) {
		specs = append(specs, s.describeSearch(names))
		names = s.foundOf(names)
	}
	for _, n := range names {
		specs = append(specs, k.tools[n].Spec())
	}
	s.specs.Store(&specs)
	return specs
}

// still reports whether exactly these are the descriptions of the tools that are shown now, and none is to be searched.
func (s *Set) still(k *kit, specs []llm.ToolSpec) bool {
	if s.searching(k.names) {
		return false
	}
	i := 0
	for _, n := range k.names {
		t := k.tools[n]
		if absent(t) || s.cfg.Show != nil && !s.cfg.Show(n) {
			continue
		}
		if i == len(specs) || !same(specs[i], t.Spec()) {
			return false
		}
		i++
	}
	return i == len(specs)
}

// same reports whether two descriptions are one. Schemas are compared by where they are: they are not written to.
func same(a, b llm.ToolSpec) bool {
	if a.Name != b.Name || a.Description != b.Description || len(a.Schema) != len(b.Schema) {
		return false
	}
	return len(a.Schema) == 0 || &a.Schema[0] == &b.Schema[0]
}

func (s *Set) shown(k *kit) []string {
	names := k.offered()
	if s.cfg.Show == nil {
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !s.cfg.Show(n) })
}
