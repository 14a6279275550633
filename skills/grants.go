package skills

import (
	"cmp"
	"path/filepath"
	"slices"
	"sync/atomic"

	"symbio/security/permission"
)

// ownFiles is the rule by which every agent may read the files of an active skill, whatever the skill asks for: without
// it a skill's text would name files that the agent cannot open (skills.md R61). Denials come before it.
const ownFiles = "Read(${CLAUDE_SKILL_DIR}/*)"

// agentGrants is what the active skills of one agent give it. The registry's actor makes a new one for each change and
// publishes it; but for its two kinds of flags it is not changed afterwards.
type agentGrants struct {
	gone    *atomic.Bool // the agent has ended; the same flag from its first skill to its end
	grants  []*grant     // by label
	rules   []permission.Granted
	reading []permission.Granted
}

// grant is what one active skill gives.
type grant struct {
	label string
	rules []permission.Rule
	home  home
	holds func() bool // whether the rules still count; it looks at the disk
	ended atomic.Bool // they did not any more, at some time
}

// home is the directory of an active skill.
type home struct{ dir, canonical string }

func newAgentGrants(gone *atomic.Bool, grants []*grant) *agentGrants {
	slices.SortFunc(grants, func(a, b *grant) int { return cmp.Compare(a.label, b.label) })
	g := &agentGrants{gone: gone, grants: grants, rules: merge(grants)}
	for _, s := range grants {
		if rule, err := permission.ParseGrant(ownFiles); err == nil && s.home != (home{}) {
			g.reading = append(g.reading, permission.Granted{Rule: rule.WithSkillDir(s.home.dir), Source: "skill:" + s.label})
		}
	}
	g.reading = slices.Clip(g.reading)
	return g
}

// merge returns each rule of the grants that have not ended once, ordered by its text. Its source is the first skill that
// grants it, by label.
func merge(grants []*grant) []permission.Granted {
	sources := map[permission.Rule]string{}
	rules := []permission.Granted{}
	for _, s := range grants {
		for _, r := range s.rules {
			if _, known := sources[r]; !known && !s.ended.Load() {
				sources[r] = "skill:" + s.label
				rules = append(rules, permission.Granted{Rule: r, Source: sources[r]})
			}
		}
	}
	slices.SortFunc(rules, func(a, b permission.Granted) int {
		return cmp.Or(cmp.Compare(a.Rule.String(), b.Rule.String()), cmp.Compare(a.Source, b.Source))
	})
	return slices.Clip(rules)
}

// lapse ends the grants that do not hold any more, for good, and returns them.
func (g *agentGrants) lapse() (lapsed []*grant) {
	for _, s := range g.grants {
		if len(s.rules) > 0 && !s.ended.Load() && !s.holds() && s.ended.CompareAndSwap(false, true) {
			lapsed = append(lapsed, s)
		}
	}
	return lapsed
}

func (g *agentGrants) granted() []permission.Granted {
	if slices.ContainsFunc(g.grants, func(s *grant) bool { return s.ended.Load() }) {
		return merge(g.grants)
	}
	return g.rules
}

// dirs returns the directories of the skills, without those that a link leads elsewhere since the activation.
func (g *agentGrants) dirs() (dirs []string) {
	for _, s := range g.grants {
		if real, err := filepath.EvalSymlinks(s.home.dir); s.home != (home{}) && err == nil && real == s.home.canonical {
			dirs = append(dirs, s.home.dir)
		}
	}
	slices.Sort(dirs)
	return dirs
}

// homeOf is where the skill's files may be read; none for a skill without a directory on the disk.
func homeOf(s Skill) home {
	if !s.onDisk() {
		return home{}
	}
	canonical, err := filepath.EvalSymlinks(s.Dir)
	if err != nil {
		return home{}
	}
	return home{s.Dir, canonical}
}
