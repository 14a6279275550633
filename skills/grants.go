package skills

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"symbio/security/permission"
)

// Grants are the rules that the active skills of one agent grant. A rule that several skills grant
// stays until the last of them is removed. The zero value is empty and ready; all methods may be
// called by any number of goroutines.
type Grants struct {
	mu      sync.RWMutex
	bySkill map[string][]permission.Rule // guarded by mu
	rules   []permission.Granted         // of bySkill, each rule once; replaced, not written to; guarded by mu
}

// Add sets what a skill grants. Adding it again changes nothing; no rules remove the skill.
func (g *Grants) Add(skill string, rules []permission.Rule) {
	if len(rules) == 0 {
		g.Remove(skill)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.bySkill == nil {
		g.bySkill = make(map[string][]permission.Rule)
	}
	g.bySkill[skill] = slices.Clone(rules)
	g.refresh()
}

// Remove takes back what a skill grants and no other skill grants too.
func (g *Grants) Remove(skill string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.bySkill, skill)
	g.refresh()
}

// Clear takes everything back.
func (g *Grants) Clear() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.bySkill)
	g.refresh()
}

// Rules returns each granted rule once, ordered by its text. The source is the first skill, by name,
// that grants it. The slice is shared and not to be written to.
func (g *Grants) Rules() []permission.Granted {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.rules
}

// RulesOf returns the rules that one skill grants, in the order of its SKILL.md.
func (g *Grants) RulesOf(skill string) []permission.Rule {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return slices.Clone(g.bySkill[skill])
}

// Skills names the skills that grant something, in order.
func (g *Grants) Skills() []string {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return slices.Sorted(maps.Keys(g.bySkill))
}

// refresh is called with mu held.
func (g *Grants) refresh() {
	sources := make(map[permission.Rule]string)
	for _, skill := range slices.Sorted(maps.Keys(g.bySkill)) {
		for _, r := range g.bySkill[skill] {
			if _, ok := sources[r]; !ok {
				sources[r] = "skill:" + skill
			}
		}
	}
	rules := make([]permission.Granted, 0, len(sources))
	for r, source := range sources {
		rules = append(rules, permission.Granted{Rule: r, Source: source})
	}
	slices.SortFunc(rules, func(a, b permission.Granted) int {
		return cmp.Or(cmp.Compare(a.Rule.String(), b.Rule.String()), cmp.Compare(a.Source, b.Source))
	})
	g.rules = slices.Clip(rules)
}
