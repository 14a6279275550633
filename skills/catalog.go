package skills

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"symbio/internal/security/visible"
	"symbio/skills/format"
)

// Catalog is a snapshot of all skills that were found. It never changes after it was returned.
// Callers must not write to its slices and maps.
type Catalog struct {
	// Skills are in the order of precedence: scope, name, path. Several skills can have the same
	// name.
	Skills []Skill `json:"skills"`
	// Errors are the skills that were left out, by path.
	Errors []Problem `json:"errors"`
	// Notes are other findings: broken links, names that occur twice, limits that were reached.
	Notes []Problem `json:"notes,omitempty"`
	// Truncated is true when a limit kept a part of a root from being searched.
	Truncated bool `json:"truncated"`
}

// Problem is what is wrong with the file or directory at Path.
type Problem struct {
	Path        string
	Diagnostics []format.Diagnostic
}

// Message returns the problem on one line: the errors if there are any, else all diagnostics.
func (p Problem) Message() string {
	failed := format.Failed(p.Diagnostics)
	var texts []string
	for _, d := range p.Diagnostics {
		if !failed || d.Severity == format.Error {
			texts = append(texts, d.Message)
		}
	}
	return strings.Join(texts, "; ")
}

// Err returns an error that names every skill that was left out and the reason, nil if there is
// none. A scan itself never fails because of a skill: Err is for callers that treat that as a
// failure.
func (c Catalog) Err() error {
	var all []error
	for _, p := range c.Errors {
		all = append(all, fmt.Errorf("%s: %s", p.Path, p.Message()))
	}
	return errors.Join(all...)
}

// Find returns the skill with that exact name, or the skill whose SKILL.md or directory has that
// path. ErrNotFound suggests the skill whose name is nearest. ErrAmbiguous lists the paths to
// choose from.
func (c Catalog) Find(nameOrPath string) (Skill, error) {
	var named []Skill
	for _, s := range c.Skills {
		switch {
		case nameOrPath == s.Path, nameOrPath == s.Dir:
			return s, nil
		case nameOrPath == s.Name && !s.Superseded:
			named = append(named, s)
		}
	}
	named = ownBeforePeers(named)
	switch len(named) {
	case 1:
		return named[0], nil
	case 0:
		return Skill{}, c.notFound(nameOrPath)
	}
	paths := make([]string, len(named))
	for i, s := range named {
		paths[i] = s.Path
	}
	return Skill{}, fmt.Errorf("%w: %d skills are named %q; choose one by its path: %s", ErrAmbiguous, len(named), nameOrPath, strings.Join(paths, ", "))
}

// ownBeforePeers leaves out the skills of other nodes if there is another one of that name. A
// fetched skill can therefore never replace a skill of this machine.
func ownBeforePeers(named []Skill) []Skill {
	own := slices.DeleteFunc(slices.Clone(named), func(s Skill) bool { return s.Scope == ScopePeer })
	if len(own) == 0 {
		return named
	}
	return own
}

// LeftOut returns what is not in the catalog and could be meant to be, with the reasons.
func (c Catalog) LeftOut() []Problem {
	return slices.Concat(c.Errors, slices.DeleteFunc(slices.Clone(c.Notes), isRelation))
}

// notFound returns ErrNotFound with the name, and with why that skill was left out, which is a *LoadError, or the name of a
// skill that was probably meant.
func (c Catalog) notFound(name string) error {
	for _, p := range c.Errors {
		if dir := filepath.Dir(p.Path); name == p.Path || name == dir || name == filepath.Base(dir) {
			return fmt.Errorf("%w: %q: %w", ErrNotFound, name, &LoadError{Path: dir, Diagnostics: p.Diagnostics, Err: kindOf(p.Diagnostics)})
		}
	}
	names := make([]string, len(c.Skills))
	for i, s := range c.Skills {
		names[i] = s.Name
	}
	return fmt.Errorf("%w: %q%s", ErrNotFound, name, visible.Suggest(name, names))
}

// catalogBuilder collects the skills of a catalog. The first skill with an id wins: roots are
// searched in the order of precedence.
type catalogBuilder struct {
	catalog Catalog
	failed  []*knownSkill
	seen    map[string]bool // by id
}

// add adds a skill, or the last good version of a skill that an edit broke.
func (g *catalogBuilder) add(k *knownSkill) {
	skill := k.reading.skill
	if format.Failed(k.reading.diags) {
		g.failed = append(g.failed, k)
		if k.good == nil {
			return
		}
		skill = *k.good
	}
	if !g.seen[skill.ID] {
		g.seen[skill.ID] = true
		g.catalog.Skills = append(g.catalog.Skills, skill)
	}
}

// finish sorts what was added and returns the catalog.
func (g *catalogBuilder) finish() Catalog {
	c := g.catalog
	slices.SortStableFunc(c.Skills, byPrecedence)
	for _, k := range g.failed {
		// Otherwise a link of another name led to a skill that is in the catalog.
		if r := k.reading; k.good != nil || !g.seen[r.skill.ID] {
			c.Errors = append(c.Errors, Problem{r.skill.Path, r.diags})
		}
	}
	byPath := func(a, b Problem) int { return cmp.Compare(a.Path, b.Path) }
	slices.SortStableFunc(c.Errors, byPath)
	c.Errors = slices.CompactFunc(c.Errors, func(a, b Problem) bool { return a.Path == b.Path })
	c.Notes = append(c.Notes, relations(c.Skills)...)
	slices.SortStableFunc(c.Notes, byPath)
	return c
}

// byPrecedence orders skills as in a Catalog: by scope, name and path.
func byPrecedence(a, b Skill) int {
	return cmp.Or(cmp.Compare(a.Scope.rank(), b.Scope.rank()), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Path, b.Path))
}

// compareNames marks the skills that have a newer version in the same scope, and returns a note for
// each of them and for each skill whose name an earlier skill has. skills must be in the order of
// precedence.
func compareNames(skills []Skill) (notes []Problem) {
	first := make(map[string]int, len(skills))
	for from, to := 0, 0; from < len(skills); from = to {
		newest := from
		for to = from; to < len(skills) && skills[to].Scope == skills[from].Scope && skills[to].Name == skills[from].Name; to++ {
			if format.Compare(skills[to].Version, skills[newest].Version) > 0 {
				newest = to
			}
		}
		for i := from; i < to; i++ {
			s := &skills[i]
			s.Superseded = format.Compare(s.Version, skills[newest].Version) < 0
			f, taken := first[s.Name]
			switch {
			case s.Superseded:
				notes = append(notes, nameNote(s, "the version %q of the name %q is older than that of %s, which the name means; choose by path", s.Version, s.Name, skills[newest].Path))
			case taken:
				notes = append(notes, nameNote(s, "the name %q is taken by %s as well; choose by path", s.Name, skills[f].Path))
			default:
				first[s.Name] = i
			}
		}
	}
	return notes
}

// nameNote returns a note about the name of a skill.
func nameNote(s *Skill, message string, args ...any) Problem {
	return Problem{s.Path, []format.Diagnostic{{Code: format.CodeDuplicateName, Severity: format.Warning, Field: "name", Message: fmt.Sprintf(message, args...)}}}
}
