package skills

import (
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"symbio/security/permission"
)

// given is what agents have of their active skills: grants, and directories to read. The actor writes
// it, everybody reads. An agent that ends loses it at once and is marked as gone, so that the actor
// takes back what it was just about to give.
type given struct {
	mu      sync.RWMutex
	byAgent map[string]*Grants              // guarded by mu
	homes   map[string]map[string]home      // by agent, then by the skill's label; guarded by mu
	reads   map[string][]permission.Granted // for the homes of an agent; replaced, not written to; guarded by mu
	gone    map[string]bool                 // guarded by mu
}

// home is the directory of an active skill.
type home struct{ dir, canonical string }

// ownFiles is what every agent may read while a skill is active, whatever the skill asks for: without it
// a skill's text would name files that nobody can open (skills.md R61). Denials come before it.
const ownFiles = "Read(${CLAUDE_SKILL_DIR}/*)"

func newGiven() *given {
	return &given{byAgent: map[string]*Grants{}, homes: map[string]map[string]home{}, reads: map[string][]permission.Granted{}, gone: map[string]bool{}}
}

func (g *given) rules(agent string) []permission.Granted {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if grants := g.byAgent[agent]; grants != nil {
		return grants.Rules()
	}
	return nil
}

// reading are the rules for the files of the agent's skills.
func (g *given) reading(agent string) []permission.Granted {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.reads[agent]
}

// dirs are the directories that the agent may read in because of its skills, those left out that a
// link leads elsewhere since the activation.
func (g *given) dirs(agent string) []string {
	g.mu.RLock()
	homes := slices.Collect(maps.Values(g.homes[agent]))
	g.mu.RUnlock()
	var dirs []string
	for _, h := range homes {
		if real, err := filepath.EvalSymlinks(h.dir); err == nil && real == h.canonical {
			dirs = append(dirs, h.dir)
		}
	}
	slices.Sort(dirs)
	return dirs
}

// add sets what a skill gives to an agent, and returns whether the agent's grants are others now.
func (g *given) add(agent, label string, rules []permission.Rule, at home) (changed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.byAgent[agent] == nil {
		g.byAgent[agent] = &Grants{}
	}
	changed = !slices.Equal(g.byAgent[agent].RulesOf(label), rules)
	g.byAgent[agent].Add(label, rules)
	if at == (home{}) {
		return changed
	}
	if g.homes[agent] == nil {
		g.homes[agent] = map[string]home{}
	}
	g.homes[agent][label] = at
	g.refresh(agent)
	return changed
}

// refresh is called with mu held.
func (g *given) refresh(agent string) {
	var reads []permission.Granted
	for _, label := range sortedKeys(g.homes[agent]) {
		if rule, err := permission.ParseGrant(ownFiles); err == nil {
			reads = append(reads, permission.Granted{Rule: rule.WithSkillDir(g.homes[agent][label].dir), Source: "skill:" + label})
		}
	}
	if g.reads[agent] = slices.Clip(reads); len(reads) == 0 {
		delete(g.reads, agent)
	}
}

// remove takes back what a skill gave, and returns the rules that it had granted.
func (g *given) remove(agent, label string) []permission.Rule {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.homes[agent], label)
	g.refresh(agent)
	grants := g.byAgent[agent]
	if grants == nil {
		return nil
	}
	rules := grants.RulesOf(label)
	grants.Remove(label)
	return rules
}

// forget is called with mu held.
func (g *given) forget(agent string) {
	delete(g.byAgent, agent)
	delete(g.homes, agent)
	delete(g.reads, agent)
}

// leave ends all that an agent has that has ended itself: until the actor has swept, what it gives is void.
func (g *given) leave(agent string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forget(agent)
	g.gone[agent] = true
}

// sweep drops what agents that are gone were given meanwhile, and names them, once.
func (g *given) sweep() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.gone) == 0 {
		return nil
	}
	gone := slices.Sorted(maps.Keys(g.gone))
	for _, agent := range gone {
		g.forget(agent)
	}
	clear(g.gone)
	return gone
}

// clear ends everything.
func (g *given) clear() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.byAgent)
	clear(g.homes)
	clear(g.reads)
	clear(g.gone)
}
