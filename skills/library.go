package skills

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"symbio/skills/format"
)

// library is the registry's catalog and what it is made of. Only the registry's actor uses it.
type library struct {
	cfg     Config
	scanner *scanner
	publish func(*Snapshot)

	scanned    Catalog          // by the last scan
	registered map[string]Skill // beside it, by id
	removed    map[string]bool  // unregistered, by id
	catalog    Catalog          // the result; replaced, not written to
	published  bool             // the catalog was published, and can be compared
	looked     time.Time        // when the disk was looked at last
}

// refresh looks for what has changed, unless that was done just now and that is enough.
func (l *library) refresh(ctx context.Context, now bool) error {
	if !now && time.Since(l.looked) < l.cfg.Fresh {
		return nil
	}
	return l.rescan(ctx, l.scanner.refresh, "changed")
}

func (l *library) rescan(ctx context.Context, scan func(context.Context) (Catalog, error), why string) error {
	c, err := scan(ctx)
	if err != nil {
		return err
	}
	l.scanned, l.looked = c, time.Now()
	l.cfg.Logger.Debug("skills scanned", "skills", len(c.Skills), "errors", len(c.Errors), "truncated", c.Truncated)
	for _, p := range c.Errors {
		l.cfg.Logger.Warn("skill left out", "path", p.Path, "why", p.Message())
	}
	l.assemble(why)
	return nil
}

func (l *library) choose(c Choices) {
	l.cfg.Choices = c
	l.assemble("chosen")
}

func (l *library) register(skills []Skill) error {
	taken := map[string]bool{}
	for _, s := range l.catalog.Skills {
		taken[s.ID] = true
	}
	for _, s := range skills {
		switch {
		case s.ID == "" || s.Path == "":
			return fmt.Errorf("register %q: %w: it is neither of Load nor of Inline", s.Name, ErrInvalid)
		case taken[s.ID]:
			return fmt.Errorf("register %s: %w: %s", s.Name, ErrAlreadyExists, s.Path)
		}
		taken[s.ID] = true
	}
	for _, s := range skills {
		l.registered[s.ID] = s
		delete(l.removed, s.ID)
	}
	l.published = false // a skill in memory has no version to compare
	l.assemble("registered")
	return nil
}

func (l *library) unregister(name string) (Skill, error) {
	skill, err := l.catalog.Resolve(name, l.cfg.Duplicates)
	if err != nil {
		return Skill{}, err
	}
	delete(l.registered, skill.ID)
	l.removed[skill.ID] = true
	l.assemble("unregistered")
	return skill, nil
}

// assemble makes the catalog of what was scanned and what was registered, and publishes it if it differs from the last.
func (l *library) assemble(why string) {
	c := l.scanned
	c.Skills = slices.DeleteFunc(slices.Clone(c.Skills), func(s Skill) bool {
		_, replaced := l.registered[s.ID]
		return replaced || l.removed[s.ID]
	})
	if len(l.registered) > 0 {
		c.Skills = slices.AppendSeq(c.Skills, maps.Values(l.registered))
		slices.SortFunc(c.Skills, byPrecedence)
		c.Notes = slices.DeleteFunc(slices.Clone(c.Notes), func(p Problem) bool { return p.Diagnostics[0].Code == format.CodeDuplicateName })
		c.Notes = append(c.Notes, collisions(c.Skills)...)
	}
	c = l.cfg.Choices.Apply(c)
	if l.published && sameCatalog(l.catalog, c) {
		return
	}
	l.catalog, l.published = c, true
	l.publish(&Snapshot{c})
	l.cfg.Report(catalogEvent(c, why))
}

// sameCatalog reports whether two catalogs are the same to their readers.
func sameCatalog(a, b Catalog) bool {
	sameSkill := func(x, y Skill) bool {
		return x.ID == y.ID && x.Name == y.Name && x.Path == y.Path && x.Scope == y.Scope && x.Exposure == y.Exposure &&
			x.Description == y.Description && x.Size == y.Size && x.ModTime.Equal(y.ModTime)
	}
	sameProblem := func(x, y Problem) bool { return x.Path == y.Path && x.Message() == y.Message() }
	return slices.EqualFunc(a.Skills, b.Skills, sameSkill) && slices.EqualFunc(a.Errors, b.Errors, sameProblem) &&
		slices.EqualFunc(a.Notes, b.Notes, sameProblem) && a.Truncated == b.Truncated
}
