package skills

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// library builds the registry's catalog from the last scan and from registered skills. Only the
// registry's actor uses it.
type library struct {
	cfg     Config
	scanner *scanner
	// publish makes a snapshot visible to all goroutines.
	publish func(*Snapshot)

	// scanned is the result of the last scan.
	scanned Catalog
	// registered are the skills that a program has added, by id.
	registered map[string]Skill
	// removed are the ids of skills that were unregistered; a scan does not bring them back.
	removed map[string]bool
	// catalog is the result. It is replaced and never written to, because other goroutines read it.
	catalog Catalog
	// published reports that catalog was published and can be compared with the next one.
	published bool
	// lastCheck is when the disk was looked at last.
	lastCheck time.Time
}

// refresh updates the catalog if a file has changed. Unless now is set, it does not look at the
// disk more often than once per Config.Fresh.
func (l *library) refresh(ctx context.Context, now bool) error {
	if !now && time.Since(l.lastCheck) < l.cfg.Fresh {
		return nil
	}
	if l.scanner.unchanged(ctx) {
		l.lastCheck = time.Now()
		return nil
	}
	return l.rescan(ctx, "changed")
}

// rescan replaces the scanned part of the catalog. On an error the catalog stays. why is as in assemble.
func (l *library) rescan(ctx context.Context, why string) error {
	c, err := l.scanner.scan(ctx)
	if err != nil {
		return err
	}
	l.scanned, l.lastCheck = c, time.Now()
	l.cfg.Logger.Debug("skills scanned", "skills", len(c.Skills), "errors", len(c.Errors), "truncated", c.Truncated)
	l.assemble(why)
	return nil
}

// choose applies other choices (enabled, disabled, hidden skills) to the catalog, without a scan.
func (l *library) choose(c Choices) {
	l.cfg.Choices = c
	l.assemble("chosen")
}

// register adds all of the skills or none. It returns ErrInvalid for a skill that does not come
// from Load or Inline, and ErrAlreadyExists for an id that is in the catalog.
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

// unregister removes a skill until it is registered again: a scan that finds it does not bring it
// back. It returns the errors of Catalog.Resolve.
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

// assemble builds the catalog and publishes it if it differs from the last one. why goes into the
// event.
func (l *library) assemble(why string) {
	c := l.scanned
	c.Skills = slices.DeleteFunc(slices.Clone(c.Skills), func(s Skill) bool {
		// A registered skill wins over the one on the disk with the same id.
		_, replaced := l.registered[s.ID]
		return replaced || l.removed[s.ID]
	})
	if len(l.registered)+len(l.removed) > 0 {
		c.Skills = slices.AppendSeq(c.Skills, maps.Values(l.registered))
		slices.SortStableFunc(c.Skills, byPrecedence)
		c.Notes = slices.DeleteFunc(slices.Clone(c.Notes), isRelation)
		c.Notes = append(c.Notes, relations(c.Skills)...)
	}
	c = l.cfg.Choices.Apply(c)
	if l.published && sameCatalog(l.catalog, c) {
		return
	}
	l.catalog, l.published = c, true
	l.publish(&Snapshot{Catalog: c})
	l.cfg.Report(catalogEvent(c, why))
}

// sameCatalog reports whether two catalogs show the same to models and people. It compares what a
// scan can change, and not the texts.
func sameCatalog(a, b Catalog) bool {
	sameSkill := func(x, y Skill) bool {
		return x.ID == y.ID && x.Name == y.Name && x.Path == y.Path && x.Scope == y.Scope && x.Exposure == y.Exposure &&
			x.Description == y.Description && x.Size == y.Size && x.ModTime.Equal(y.ModTime)
	}
	sameProblem := func(x, y Problem) bool { return x.Path == y.Path && x.Message() == y.Message() }
	return slices.EqualFunc(a.Skills, b.Skills, sameSkill) && slices.EqualFunc(a.Errors, b.Errors, sameProblem) &&
		slices.EqualFunc(a.Notes, b.Notes, sameProblem) && a.Truncated == b.Truncated
}
