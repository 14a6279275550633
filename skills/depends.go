package skills

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"symbio/internal/security/visible"
	"symbio/skills/format"
)

// UnmetDependency is a skill that was not activated with the one that depends on it, and the
// reason.
type UnmetDependency struct {
	Name string `json:"name"` // and versions, as the SKILL.md has it
	Why  string `json:"why"`
}

// relations marks superseded skills, and returns the notes about names and dependencies. skills
// must be in the order of precedence.
func relations(skills []Skill) []Problem {
	return append(compareNames(skills), dependencyNotes(skills)...)
}

// isRelation reports whether a note is one that relations returns.
func isRelation(p Problem) bool {
	return slices.Contains([]format.Code{format.CodeDuplicateName, format.CodeDependsMissing, format.CodeDependsVersion, format.CodeDependsCycle}, p.Diagnostics[0].Code)
}

// maxSameName limits the skills of one name that notes about dependencies look at, so that the time
// does not grow with the square of the catalog.
const maxSameName = 16

// dependencyWalk looks for cycles. The time is linear in the number of skills and dependencies.
type dependencyWalk struct {
	byName map[string][]*Skill
	// open are the skills whose dependencies are being looked at, by id; false = they have been.
	open  map[string]bool
	notes []Problem
}

// dependencyNotes returns a note for each dependency that is missing, has no version that is
// allowed, or leads back to the skill.
func dependencyNotes(skills []Skill) []Problem {
	w := dependencyWalk{byName: map[string][]*Skill{}, open: map[string]bool{}}
	if !slices.ContainsFunc(skills, func(s Skill) bool { return len(s.Depends) > 0 }) {
		return nil
	}
	for i := range skills {
		if same := w.byName[skills[i].Name]; len(same) < maxSameName {
			w.byName[skills[i].Name] = append(same, &skills[i])
		}
	}
	for i := range skills {
		w.visit(&skills[i])
	}
	return w.notes
}

// visit looks at the dependencies of a skill and, before it returns, at theirs.
func (w *dependencyWalk) visit(s *Skill) {
	if _, known := w.open[s.ID]; known || len(s.Depends) == 0 {
		return
	}
	w.open[s.ID] = true
	for _, d := range s.Depends {
		needed, code, why := pick(w.byName[d.Name], d, s.Scope)
		switch {
		case needed != nil && w.open[needed.ID]:
			code, why = format.CodeDependsCycle, fmt.Sprintf("it depends on %s, which depends on it", d)
		case needed != nil:
			w.visit(needed)
			continue
		}
		w.notes = append(w.notes, Problem{s.Path, []format.Diagnostic{{Code: code, Severity: format.Warning, Field: "depends", Message: why}}})
	}
	w.open[s.ID] = false
}

// pick returns the skill that a dependency of a skill in a scope means. Of those that have the name
// and a version that is allowed, it takes one of the same scope before others, the first scope by
// precedence, and the newest version. named must be in the order of precedence. On failure it
// returns nil, a code and the reason.
func pick(named []*Skill, d format.Dependency, scope Scope) (best *Skill, code format.Code, why string) {
	allowed, err := format.ParseConstraint(d.Constraint)
	if err != nil || len(named) == 0 {
		return nil, format.CodeDependsMissing, fmt.Sprintf("it depends on %s, and no skill of that name was found", d)
	}
	for _, s := range named {
		// A skill of another node never replaces one of this machine.
		if !allowed.Allows(s.Version) || s.Scope == ScopePeer && named[0].Scope != ScopePeer {
			continue
		}
		if best == nil || s.Scope == scope && best.Scope != scope || s.Scope == best.Scope && format.Compare(s.Version, best.Version) > 0 {
			best = s
		}
	}
	if best == nil {
		return nil, format.CodeDependsVersion, fmt.Sprintf("it depends on %s, and no skill of that name has such a version; %s has the version %q", d, named[0].Path, named[0].Version)
	}
	return best, "", ""
}

// activateDependencies activates what a skill depends on, each with its own trust and grants. The
// activations include the dependencies' dependencies. A dependency that fails does not
// keep the others from being activated.
func (s *activeSkills) activateDependencies(lib *library, w ActivateRequest, of Skill) (all []Activation, unmet []UnmetDependency) {
	s.removeHolder(w.Agent, of.ID)
	w.chain = append(slices.Clip(w.chain), of)
	for _, d := range of.Depends {
		a, err := s.activateDependency(lib, w, d)
		if err != nil {
			unmet = append(unmet, UnmetDependency{oneLine(d.String()), visible.TruncateRunes(oneLine(err.Error()), maxEventText)})
			continue
		}
		theirs := a.Depends
		unmet = append(unmet, a.Unmet...)
		a.Depends, a.Unmet = nil, nil
		all = append(append(all, a), theirs...)
	}
	if len(w.chain) == 1 { // else the rules of an earlier skill of the chain may not be held again yet
		s.endUnheld(w.Agent)
	}
	return all, unmet
}

// activateDependency activates one dependency of the last skill of w.chain. The refusal of a
// dependency that was found is reported by activate.
func (s *activeSkills) activateDependency(lib *library, w ActivateRequest, d format.Dependency) (Activation, error) {
	of := w.chain[len(w.chain)-1]
	var named []*Skill
	for i := range lib.catalog.Skills {
		if lib.catalog.Skills[i].Name == d.Name {
			named = append(named, &lib.catalog.Skills[i])
		}
	}
	needed, _, why := pick(named, d, of.Scope)
	switch {
	case needed == nil:
	case slices.ContainsFunc(w.chain, func(c Skill) bool { return c.ID == needed.ID }):
		why = "it depends on " + of.Name + " as well"
	case w.May != nil:
		if err := w.May(*needed); err != nil {
			why = err.Error()
		}
	}
	if why == "" {
		w.Name, w.Path, w.Arguments, w.Hash = needed.Name, needed.Path, "", ""
		return s.activate(lib, w, "")
	}
	s.cfg.Report(Event{Kind: EventRefused, Agent: w.Agent, Skill: oneLine(d.String()), By: string(w.By),
		Why: visible.TruncateRunes("needed by "+of.Name+": "+oneLine(why), maxEventText)})
	return Activation{}, errors.New(why)
}

// removeHolder records that a skill of an agent does not need its dependencies any more.
func (s *activeSkills) removeHolder(agent, id string) {
	if h := s.agents[agent]; h != nil {
		for _, a := range h.skills {
			delete(a.holders, id)
		}
	}
}

// endUnheld ends the skills that were activated for others alone, and that none of these needs now.
func (s *activeSkills) endUnheld(agent string) {
	unheld := func(a activeSkill) bool { return !a.direct && len(a.holders) == 0 }
	if h := s.agents[agent]; h != nil {
		for _, a := range h.skills {
			if unheld(a) {
				s.deactivateOf(agent, unheld, "no active skill depends on it")
				return
			}
		}
	}
}

// All returns the activation and the ones in Depends.
func (a Activation) All() []Activation { return append([]Activation{a}, a.Depends...) }

// writeDependencies appends the texts of the skills that were activated with this one, each by
// text, and the reasons for those that were not.
func (a Activation) writeDependencies(b *strings.Builder, text func(Activation) string) {
	for _, d := range a.Depends {
		b.WriteString("\n\n" + text(d))
	}
	if len(a.Unmet) > 0 {
		fmt.Fprintf(b, "\n\n## Not activated with %s\n", oneLine(a.Skill.Name))
	}
	for _, u := range a.Unmet {
		fmt.Fprintf(b, "- %s: %s\n", u.Name, u.Why)
	}
}
