package skills

import (
	"cmp"
	"path/filepath"
	"slices"
	"sync/atomic"

	"symbio/security/permission"
)

// ownFiles is the rule that lets every agent read the files of an active skill, whatever the skill
// asks for. Without it a skill's text would name files that the agent cannot open.
// Deny rules of the configuration still win.
const ownFiles = "Read(${CLAUDE_SKILL_DIR}/*)"

// agentGrants is what the active skills of one agent grant. The registry's actor makes a new one
// for each change and publishes it. Only its atomic flags change afterwards, so that readers need
// no lock.
type agentGrants struct {
	gone    *atomic.Bool // the agent has ended; the same flag from its first skill to its end
	grants  []*grant     // by label
	rules   []permission.Grant
	reading []permission.Grant
}

// grant is what one active skill grants.
type grant struct {
	label    string
	rules    []permission.Rule
	skillDir skillDir
	valid    func() bool // whether the rules still count; it looks at the disk
	trusted  bool        // its scope grants, or a person has said yes
	ended    atomic.Bool // they did not any more, at some time
}

// skillDir is the directory of an active skill. canonical is the path without links, as it was at
// the activation.
type skillDir struct{ dir, canonical string }

// inPlace reports whether there is a directory, to which dir still leads.
func (d skillDir) inPlace() bool {
	now, err := filepath.EvalSymlinks(d.dir)
	return d != (skillDir{}) && err == nil && now == d.canonical
}

// GrantSource returns the permission.Grant.Source of the grants of the active skill with a label; the
// label is its name, if the agent has no other skill of that name.
func GrantSource(label string) string { return "skill:" + label }

// newAgentGrants sorts the grants and computes the rules once, because readers ask for each
// decision.
func newAgentGrants(gone *atomic.Bool, grants []*grant) *agentGrants {
	slices.SortStableFunc(grants, func(a, b *grant) int { return cmp.Compare(a.label, b.label) })
	g := &agentGrants{gone: gone, grants: grants, rules: merge(grants)}
	for _, s := range grants {
		if rule, err := permission.ParseGrant(ownFiles); err == nil && s.skillDir != (skillDir{}) {
			g.reading = append(g.reading, permission.Grant{Rule: rule.WithSkillDir(s.skillDir.dir), Source: GrantSource(s.label)})
		}
	}
	g.reading = slices.Clip(g.reading)
	return g
}

// merge returns the rules of the grants that have not ended, without duplicates and ordered by
// their text. The source of a rule is the first skill by label that grants it.
func merge(grants []*grant) []permission.Grant {
	rules := []permission.Grant{}
	for _, s := range grants {
		for _, r := range s.rules {
			known := slices.ContainsFunc(rules, func(g permission.Grant) bool { return g.Rule.Equal(r) })
			if !known && !s.ended.Load() {
				rules = append(rules, permission.Grant{Rule: r, Source: GrantSource(s.label)})
			}
		}
	}
	slices.SortStableFunc(rules, func(a, b permission.Grant) int {
		return cmp.Or(cmp.Compare(a.Rule.String(), b.Rule.String()), cmp.Compare(a.Source, b.Source))
	})
	return slices.Clip(rules)
}

// endInvalid ends the grants that are no longer valid, and returns those that this call ended. A
// grant does not become valid again, even if the file is restored.
func (g *agentGrants) endInvalid() (lapsed []*grant) {
	for _, s := range g.grants {
		if len(s.rules) > 0 && !s.ended.Load() && !s.valid() && s.ended.CompareAndSwap(false, true) {
			lapsed = append(lapsed, s)
		}
	}
	return lapsed
}

// granted returns the rules that hold now.
func (g *agentGrants) granted() []permission.Grant {
	if slices.ContainsFunc(g.grants, func(s *grant) bool { return s.ended.Load() }) {
		return merge(g.grants)
	}
	return g.rules
}

// dirs returns the directories of the skills. It leaves out a directory that a link now leads
// elsewhere, because the agent's commands can read what is returned here.
func (g *agentGrants) dirs() (dirs []string) {
	for _, s := range g.grants {
		if s.skillDir.inPlace() {
			dirs = append(dirs, s.skillDir.dir)
		}
	}
	slices.Sort(dirs)
	return dirs
}

// skillDirOf returns the directory of a skill, the zero value for a skill without a directory on
// the disk.
func skillDirOf(s Skill) skillDir {
	if !s.onDisk() {
		return skillDir{}
	}
	canonical, err := filepath.EvalSymlinks(s.Dir)
	if err != nil {
		return skillDir{}
	}
	return skillDir{s.Dir, canonical}
}
