package skills

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"symbio/actor"
	"symbio/security/permission"
)

// Registry hands out the skills of a node to all its agents. It is an actor; its methods may be
// called by any number of goroutines. Those that take a context wait for their turn and for the
// disk; besides what they say they return the actor's errors (actor.ErrBusy at once when too many
// wait, actor.ErrStopped after the end) and the context's.
type Registry struct {
	ref    *actor.Ref
	grants granted
}

// NewRegistry starts a registry in sys, under cfg.Name, and scans for skills before it returns.
// It ends with sys; all grants end with it.
func NewRegistry(sys *actor.System, cfg Config) (*Registry, error) {
	r := &Registry{grants: granted{byAgent: make(map[string]*Grants)}}
	cfg = cfg.withDefaults()
	scanner := NewScanner(cfg)
	ref, err := sys.Spawn(actor.Props{
		Name: cfg.Name,
		New: func() (actor.Behavior, error) {
			// After a crash nobody knows which skills are active, so none are.
			r.grants.clear()
			s := &shelf{cfg: cfg, scanner: scanner, grants: &r.grants, active: make(map[string]map[string]active)}
			return s, s.rescan(context.Background())
		},
		Stopped: func(error) { r.grants.clear() },
	})
	if err != nil {
		return nil, fmt.Errorf("start the registry of skills: %w", err)
	}
	r.ref = ref
	return r, nil
}

// Catalog returns the snapshot of the last scan.
func (r *Registry) Catalog(ctx context.Context) (Catalog, error) {
	return ask[Catalog](ctx, r, getCatalog{})
}

// Rescan looks for skills again and returns the new catalog. What is active stays so.
func (r *Registry) Rescan(ctx context.Context) (Catalog, error) {
	return ask[Catalog](ctx, r, rescan{})
}

// Activate hands a skill to an agent: it reads the instructions as they are on the disk now, and
// grants the agent what the skill may grant. name is a skill's exact name, or the path of its
// SKILL.md as the catalog shows it. Activating again reads again. An error changes nothing:
// ErrNotFound, ErrAmbiguous, ErrUserOnly, or a *LoadError when the file broke since the scan.
func (r *Registry) Activate(ctx context.Context, agent, name string) (Activation, error) {
	return ask[Activation](ctx, r, activate{agent, name, ""})
}

// Accept grants an agent what a skill proposes, until it gives the skill back: a person has said yes to the
// skill whose SKILL.md has that hash. Otherwise as Activate; ErrChanged when the file has another hash now,
// and then nothing changes.
func (r *Registry) Accept(ctx context.Context, agent, name, hash string) (Activation, error) {
	return ask[Activation](ctx, r, activate{agent, name, hash})
}

// ActiveDirs returns the directories of the skills that an agent has activated, in order, without those
// inside the program.
func (r *Registry) ActiveDirs(ctx context.Context, agent string) ([]string, error) {
	return ask[[]string](ctx, r, listDirs{agent})
}

// Deactivate takes a skill, named as in Activate, and its grants back. ErrNotActive.
func (r *Registry) Deactivate(ctx context.Context, agent, name string) error {
	_, err := ask[struct{}](ctx, r, deactivate{agent, name})
	return err
}

// Release takes back everything that an agent has. Call it when the agent has ended, after its last
// call. Its grants end at once, whatever error is returned; the error says that the list of its
// active skills could not be dropped.
func (r *Registry) Release(ctx context.Context, agent string) error {
	r.grants.drop(agent)
	_, err := ask[struct{}](ctx, r, release{agent})
	return err
}

// Active names the skills that an agent has activated, in order.
func (r *Registry) Active(ctx context.Context, agent string) ([]string, error) {
	return ask[[]string](ctx, r, listActive{agent})
}

// Granted returns the rules that the agent's active skills grant now: each once, in a fixed order.
// It never waits for the actor or the disk, so that a guard may call it for each decision. The slice
// is not to be written to.
func (r *Registry) Granted(agent string) []permission.Granted { return r.grants.of(agent) }

func ask[T any](ctx context.Context, r *Registry, msg any) (T, error) {
	var none T
	answer, err := r.ref.Ask(ctx, msg)
	if err != nil {
		return none, err
	}
	got, ok := answer.(T)
	if !ok {
		return none, fmt.Errorf("the registry of skills answered %T to %T", answer, msg)
	}
	return got, nil
}

// What the actor is asked.
type (
	getCatalog struct{}
	rescan     struct{}
	activate   struct{ agent, name, accepted string } // accepted is the hash that a person said yes to
	deactivate struct{ agent, name string }
	release    struct{ agent string }
	listActive struct{ agent string }
	listDirs   struct{ agent string }
)

// granted are the grants of all agents. The actor writes them, everybody reads.
type granted struct {
	mu      sync.RWMutex
	byAgent map[string]*Grants // guarded by mu
}

func (g *granted) of(agent string) []permission.Granted {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if grants := g.byAgent[agent]; grants != nil {
		return grants.Rules()
	}
	return nil
}

func (g *granted) add(agent, skill string, rules []permission.Rule) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.byAgent[agent] == nil {
		g.byAgent[agent] = &Grants{}
	}
	g.byAgent[agent].Add(skill, rules)
}

func (g *granted) remove(agent, skill string) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if grants := g.byAgent[agent]; grants != nil {
		grants.Remove(skill)
	}
}

func (g *granted) drop(agent string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.byAgent, agent)
}

func (g *granted) clear() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.byAgent)
}

// shelf is the actor: the catalog, and who has taken what.
type shelf struct {
	cfg     Config
	scanner *Scanner
	grants  *granted
	catalog Catalog
	active  map[string]map[string]active // by agent, then by the skill's id
}

// active is a skill that an agent has. Its label is unique among the agent's skills.
type active struct {
	skill Skill
	label string
}

// Receive handles one request.
func (s *shelf) Receive(ctx context.Context, msg any) (any, error) {
	switch m := msg.(type) {
	case getCatalog:
		return s.catalog.snapshot(), nil
	case rescan:
		if err := s.rescan(ctx); err != nil {
			return nil, err
		}
		return s.catalog.snapshot(), nil
	case activate:
		return s.activate(m)
	case deactivate:
		return struct{}{}, s.deactivate(m)
	case release:
		delete(s.active, m.agent)
		s.grants.drop(m.agent)
		return struct{}{}, nil
	case listActive:
		return labels(s.active[m.agent]), nil
	case listDirs:
		return dirs(s.active[m.agent]), nil
	}
	return nil, fmt.Errorf("the registry of skills does not know %T", msg)
}

func (s *shelf) rescan(ctx context.Context) error {
	c, err := s.scanner.Scan(ctx)
	if err != nil {
		return err
	}
	s.catalog = c
	s.cfg.Logger.Debug("skills scanned", "skills", len(c.Skills), "errors", len(c.Errors), "truncated", c.Truncated)
	for _, p := range c.Errors {
		s.cfg.Logger.Warn("skill left out", "path", p.Path, "why", p.Message())
	}
	return nil
}

func (s *shelf) activate(m activate) (Activation, error) {
	skill, err := s.catalog.Find(m.name)
	if err != nil {
		return Activation{}, err
	}
	if skill.UserOnly {
		return Activation{}, fmt.Errorf("activate %s: %w", skill.Name, ErrUserOnly)
	}
	r := s.read(skill)
	if err := r.err(); err != nil {
		return Activation{}, err
	}
	if r.skill.UserOnly { // the file says so since the scan
		return Activation{}, fmt.Errorf("activate %s: %w", skill.Name, ErrUserOnly)
	}
	a := Activation{Skill: r.skill, Instructions: r.skill.inPlace(r.body), Hash: r.hash}
	g, err := s.grantsOf(a.Skill, a.Hash, m.accepted)
	if err != nil {
		return Activation{}, err
	}
	for _, rule := range g.rules {
		a.Granted = append(a.Granted, rule.String())
	}
	a.Withheld, a.Proposed = g.withheld, g.proposed
	mine := s.active[m.agent]
	before, again := mine[skill.ID]
	a.Already = again
	label := before.label
	if !again {
		label = labelFor(skill, mine)
	}
	if mine == nil {
		mine = make(map[string]active)
		s.active[m.agent] = mine
	}
	mine[skill.ID] = active{r.skill, label}
	s.grants.add(m.agent, label, g.rules)
	return a, nil
}

// read reads a skill of the catalog whole.
func (s *shelf) read(skill Skill) reading {
	if skill.files != nil {
		return readBundled(s.cfg.Bundled, strings.TrimPrefix(skill.Dir, bundledPrefix), s.cfg.Policy, true)
	}
	r, _ := load(skill.Dir, s.cfg.Policy, true)
	r.skill.Scope, r.skill.ID = skill.Scope, skill.ID
	return r
}

func (s *shelf) deactivate(m deactivate) error {
	mine := s.active[m.agent]
	for id, a := range mine {
		if m.name != a.label && m.name != a.skill.Path && m.name != a.skill.Dir {
			continue
		}
		delete(mine, id)
		if len(mine) == 0 {
			delete(s.active, m.agent)
		}
		s.grants.remove(m.agent, a.label)
		return nil
	}
	return fmt.Errorf("deactivate %q: %w; active are: %s", m.name, ErrNotActive, cmp.Or(strings.Join(labels(mine), ", "), "none"))
}

func labels(mine map[string]active) []string {
	names := make([]string, 0, len(mine))
	for _, a := range mine {
		names = append(names, a.label)
	}
	slices.Sort(names)
	return names
}

// labelFor is the skill's name, or its path when the agent has another skill of that name.
func labelFor(skill Skill, mine map[string]active) string {
	for _, a := range mine {
		if a.label == skill.Name {
			return skill.Path
		}
	}
	return skill.Name
}

// snapshot is c with lists of its own.
func (c Catalog) snapshot() Catalog {
	c.Skills, c.Errors, c.Notes = slices.Clone(c.Skills), slices.Clone(c.Errors), slices.Clone(c.Notes)
	return c
}
