package skills

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
	"unique"

	"symbio/skills/format"
)

// shelf is the actor: the catalog, and who has taken what.
type shelf struct {
	cfg     Config
	scanner *Scanner
	given   *given
	publish func(*Snapshot)

	scanned   Catalog          // what the last scan found
	own       map[string]Skill // registered beside it, by id
	out       map[string]bool  // unregistered, by id
	catalog   Catalog          // what comes of these; replaced, not written to
	known     bool             // the catalog was published
	looked    time.Time        // when the disk was looked at last
	holders   map[string]*holder
	taken     int                // how many skills were ever taken, for their order
	elsewhere map[string]Catalog // of other working directories; see List
}

// holder is an agent and what it has.
type holder struct {
	skills map[string]active  // by the skill's id
	shown  map[string]showing // the last text that its model was given of each skill, by id
}

// active is a skill that an agent has. Its label is unique among the agent's skills.
type active struct {
	skill    Skill
	label    string
	by       Taker
	order    int
	text     unique.Handle[string] // many agents have the same text, which is kept once (skills.md R35)
	hash     string
	granted  []string
	withheld []Withheld
	proposed []string
}

// showing is a version of a text in an epoch of a conversation.
type showing struct {
	version string
	epoch   int
}

// Receive handles one request. Before and after it, what agents have that are gone is dropped: one may
// have ended while it was being given something.
func (s *shelf) Receive(ctx context.Context, msg any) (any, error) {
	s.sweep()
	defer s.sweep()
	switch m := msg.(type) {
	case getCatalog:
		return s.catalog.snapshot(), nil
	case rescan:
		return s.changed(s.rescan(ctx, s.scanner.Scan, "scanned"))
	case refresh:
		return s.changed(s.refresh(ctx))
	case choose:
		return s.changed(s.choose(m.choices))
	case register:
		return s.changed(s.register(m))
	case unregister:
		return s.unregister(m.name)
	case list:
		return s.list(ctx, m)
	case Want:
		return s.take(m, "")
	case accept:
		return s.accept(m)
	case deactivate:
		return struct{}{}, s.deactivate(m)
	case endTurn:
		s.takeBackFrom(m.agent, func(a active) bool { return a.by != ByDefinition }, "the turn ended")
		return struct{}{}, nil
	case release:
		return struct{}{}, nil // the sweep has done it
	case listActive:
		return s.labels(m.agent), nil
	case isActive:
		_, found := s.find(m.agent, m.name)
		return found, nil
	case listHolders:
		return s.listHolders(), nil
	case texts:
		return s.texts(m), nil
	}
	return nil, fmt.Errorf("the registry of skills does not know %T", msg)
}

func (s *shelf) changed(err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return s.catalog.snapshot(), nil
}

// refresh looks for what has changed, if that was not done just now.
func (s *shelf) refresh(ctx context.Context) error {
	if time.Since(s.looked) < s.cfg.Fresh {
		return nil
	}
	return s.rescan(ctx, s.scanner.Refresh, "changed")
}

func (s *shelf) rescan(ctx context.Context, scan func(context.Context) (Catalog, error), why string) error {
	c, err := scan(ctx)
	if err != nil {
		return err
	}
	s.scanned, s.looked = c, time.Now()
	clear(s.elsewhere)
	s.cfg.Logger.Debug("skills scanned", "skills", len(c.Skills), "errors", len(c.Errors), "truncated", c.Truncated)
	for _, p := range c.Errors {
		s.cfg.Logger.Warn("skill left out", "path", p.Path, "why", p.Message())
	}
	s.assemble(why)
	return nil
}

// choose applies other choices. A skill that is off is nobody's any more.
func (s *shelf) choose(c Choices) error {
	s.cfg.Choices = c
	clear(s.elsewhere)
	s.assemble("chosen")
	s.takeBack(func(a active) bool { return c.Exposure(a.skill) == Off }, "switched off")
	return nil
}

// assemble makes the catalog of what was scanned and what was registered, and publishes it if it is
// another one.
func (s *shelf) assemble(why string) {
	c := s.scanned
	c.Skills = slices.DeleteFunc(slices.Clone(c.Skills), func(k Skill) bool {
		_, replaced := s.own[k.ID]
		return replaced || s.out[k.ID]
	})
	if len(s.own) > 0 {
		c.Skills = slices.AppendSeq(c.Skills, maps.Values(s.own))
		slices.SortFunc(c.Skills, func(a, b Skill) int {
			return cmp.Or(cmp.Compare(a.Scope.rank(), b.Scope.rank()), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Path, b.Path))
		})
		c.Notes = slices.DeleteFunc(slices.Clone(c.Notes), func(p Problem) bool { return p.Diagnostics[0].Code == format.CodeDuplicateName })
		c.Notes = append(c.Notes, collisions(c.Skills)...)
	}
	c = s.cfg.Choices.Apply(c)
	if s.known && sameCatalog(s.catalog, c) {
		return
	}
	s.catalog, s.known = c, true
	s.publish(&Snapshot{c})
	s.cfg.Report(catalogEvent(c, why))
}

// sameCatalog says that two catalogs are the same to whoever reads them.
func sameCatalog(a, b Catalog) bool {
	sameSkill := func(x, y Skill) bool {
		return x.ID == y.ID && x.Name == y.Name && x.Path == y.Path && x.Scope == y.Scope && x.Exposure == y.Exposure &&
			x.Description == y.Description && x.Size == y.Size && x.ModTime.Equal(y.ModTime)
	}
	sameProblem := func(x, y Problem) bool { return x.Path == y.Path && x.Message() == y.Message() }
	return slices.EqualFunc(a.Skills, b.Skills, sameSkill) && slices.EqualFunc(a.Errors, b.Errors, sameProblem) &&
		slices.EqualFunc(a.Notes, b.Notes, sameProblem) && a.Truncated == b.Truncated
}
