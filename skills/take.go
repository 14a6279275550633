package skills

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unique"
)

// Taker is on whose behalf an agent takes a skill. The zero value is ByModel, which may least.
type Taker string

// The takers.
const (
	ByModel      Taker = "model"
	ByPerson     Taker = "person"     // named it in their message
	ByDefinition Taker = "definition" // the agent's definition names it; it stays when a turn ends
)

// GrantTTL is how long a skill stays active that nobody gives back (skills.md C35).
type GrantTTL string

// The lives of an activation.
const (
	GrantSession GrantTTL = "session" // as long as its agent
	GrantTurn    GrantTTL = "turn"    // until a person's next message
)

// Want says which skill is wanted, and for whom.
type Want struct {
	Agent string
	// Name is a skill's exact name, or the path of its SKILL.md as the catalog shows it. Path is such a
	// path, too, and counts instead of Name.
	Name, Path string
	By         Taker
	// Force asks for the text even when the agent's model has it before it.
	Force bool
	// Epoch numbers the times that the agent's conversation was shortened. A text that was shown in
	// another epoch is shown again (skills.md C23).
	Epoch int
}

// mostSaid bounds what an event repeats of what others wrote, in characters.
const mostSaid = 500

// accept takes a skill again for whom it was taken, with what a person has said yes to.
func (s *shelf) accept(m accept) (Activation, error) {
	if id, found := s.find(m.Agent, m.Name); found {
		m.By = s.holders[m.Agent].skills[id].by
	}
	return s.take(m.Want, m.hash)
}

func (s *shelf) take(w Want, accepted string) (Activation, error) {
	w.By = cmp.Or(w.By, ByModel)
	listed, fresh, err := s.fetch(w)
	var gets grants
	if err == nil {
		gets, err = s.grantsOf(fresh.skill, fresh.hash, accepted)
	}
	if err != nil {
		// What a model wrote may be long.
		wanted := cut(oneLine(cmp.Or(listed.Name, w.Path, w.Name)), mostSaid)
		s.cfg.Report(Event{Kind: EventRefused, Agent: w.Agent, Skill: wanted, Path: listed.Path, By: string(w.By), Why: cut(oneLine(err.Error()), mostSaid)})
		return Activation{}, err
	}
	h := s.holders[w.Agent]
	if h == nil {
		h = &holder{skills: map[string]active{}, shown: map[string]showing{}}
		s.holders[w.Agent] = h
	}
	before, again := h.skills[listed.ID]
	label := before.label
	if !again {
		label = labelFor(listed, h.skills)
	}
	s.taken++
	now := active{skill: fresh.skill, label: label, by: w.By, order: s.taken, text: unique.Make(fresh.skill.inPlace(fresh.body)), hash: fresh.hash, withheld: gets.withheld, proposed: gets.proposed}
	if again && before.by == ByDefinition {
		now.by = ByDefinition
	}
	for _, rule := range gets.rules {
		now.granted = append(now.granted, rule.String())
	}
	version := fresh.version()
	a := now.activation()
	a.Already = again
	a.Repeat = !w.Force && h.shown[listed.ID] == showing{version, w.Epoch}
	h.skills[listed.ID] = now
	if accepted == "" { // else nobody is shown what this returns
		h.shown[listed.ID] = showing{version, w.Epoch}
	}
	s.report(w, before, now, again, s.given.add(w.Agent, label, gets.rules, homeOf(listed)))
	return a, nil
}

// fetch finds the skill that is wanted, holds it against who wants it, and reads it.
func (s *shelf) fetch(w Want) (listed Skill, fresh reading, err error) {
	listed, err = s.catalog.Resolve(cmp.Or(w.Path, w.Name), s.cfg.Duplicates)
	if err != nil {
		return Skill{}, reading{}, err
	}
	if w.Path != "" && w.Path != listed.Path && w.Path != listed.Dir {
		return Skill{}, reading{}, notFound(w.Path, "")
	}
	if why := listed.refuses(w.By); why != nil {
		return listed, reading{}, fmt.Errorf("activate %s: %w", listed.Name, why)
	}
	fresh = s.read(listed)
	if err := fresh.err(); err != nil {
		return listed, fresh, err
	}
	fresh.skill.Exposure = s.cfg.Choices.Exposure(fresh.skill)
	if why := fresh.skill.refuses(w.By); why != nil { // the file says so since the scan
		return listed, fresh, fmt.Errorf("activate %s: %w", listed.Name, why)
	}
	if fresh.skill.Name != listed.Name {
		// Whoever allowed it allowed another name.
		return listed, fresh, fmt.Errorf("%w: the skill %q calls itself %q now", ErrNotFound, listed.Name, fresh.skill.Name)
	}
	h := s.holders[w.Agent]
	if h == nil {
		return listed, fresh, nil
	}
	if _, again := h.skills[listed.ID]; !again && len(h.skills) >= s.cfg.MaxActive {
		return listed, fresh, fmt.Errorf("activate %s: %w: %d, which is the limit; give one back first: %s", listed.Name, ErrTooMany, s.cfg.MaxActive, strings.Join(s.labels(w.Agent), ", "))
	}
	return listed, fresh, nil
}

// read reads a skill of the catalog whole.
func (s *shelf) read(skill Skill) reading {
	var r reading
	if skill.files != nil {
		name := path.Base(strings.TrimPrefix(skill.Dir, bundledPrefix))
		if strings.HasPrefix(skill.Dir, inlinePrefix) {
			name = "" // it lies in no directory
		}
		r = readFiles(skill.files, skill.Dir, name, s.cfg.Policy, true)
	} else {
		r, _ = load(skill.Dir, s.cfg.Policy, true)
	}
	r.skill.Scope, r.skill.ID = skill.Scope, skill.ID
	if s.cfg.IncludeFrontMatter && r.err() == nil {
		if whole, err := r.skill.Resource(path.Base(filepath.ToSlash(r.skill.Path))); err == nil && hashOf(whole) == r.hash {
			r.body = whole
		}
	}
	return r
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// version tells one state of a file from another: its content, and what a system knows of it (skills.md
// C22).
func (r reading) version() string {
	return r.hash + " " + strconv.FormatInt(r.skill.ModTime.UnixNano(), 10) + " " + strconv.FormatInt(r.skill.Size, 10)
}

// homeOf is where the skill's files may be read; none for a skill without a directory on the disk.
func homeOf(s Skill) home {
	if s.files != nil || !filepath.IsAbs(s.Dir) {
		return home{}
	}
	canonical, err := filepath.EvalSymlinks(s.Dir)
	if err != nil {
		return home{}
	}
	return home{s.Dir, canonical}
}

// report says what a successful take has changed.
func (s *shelf) report(w Want, before, now active, again, granted bool) {
	e := Event{Agent: w.Agent, Skill: now.label, Path: now.skill.Path}
	switch {
	case !again:
		e.Kind, e.Version, e.By = EventActivated, now.skill.Version(), string(w.By)
		s.cfg.Report(e)
	case before.hash != now.hash:
		e.Kind, e.Version, e.By = EventReloaded, now.skill.Version(), string(w.By)
		s.cfg.Report(e)
	case !granted:
		return
	}
	if granted && len(now.granted) > 0 {
		s.cfg.Report(Event{Kind: EventGranted, Agent: w.Agent, Skill: now.label, Path: now.skill.Path, Rules: now.granted})
	}
	if len(now.withheld) > 0 {
		s.cfg.Report(Event{Kind: EventRefused, Agent: w.Agent, Skill: now.label, Path: now.skill.Path, Withheld: now.withheld, Why: "not all that it asks for is granted"})
	}
}

func (a active) activation() Activation {
	return Activation{Skill: a.skill, Instructions: a.text.Value(), Hash: a.hash, Granted: a.granted, Withheld: a.withheld, Proposed: a.proposed}
}

// find is the active skill that the agent means by a label, a path or a directory.
func (s *shelf) find(agent, name string) (id string, found bool) {
	h := s.holders[agent]
	if h == nil {
		return "", false
	}
	for id, a := range h.skills {
		if name == a.label || name == a.skill.Path || name == a.skill.Dir {
			return id, true
		}
	}
	return "", false
}

func (s *shelf) deactivate(m deactivate) error {
	id, found := s.find(m.agent, m.name)
	if !found {
		return fmt.Errorf("deactivate %q: %w; active are: %s", m.name, ErrNotActive, cmp.Or(strings.Join(s.labels(m.agent), ", "), "none"))
	}
	s.takeBackFrom(m.agent, func(a active) bool { return a.skill.ID == id }, "given back")
	return nil
}

// takeBack takes the skills that fit from all agents.
func (s *shelf) takeBack(fits func(active) bool, why string) {
	for _, agent := range sortedKeys(s.holders) {
		s.takeBackFrom(agent, fits, why)
	}
}

// takeBackFrom takes the skills that fit from an agent. What its model was shown stays known.
func (s *shelf) takeBackFrom(agent string, fits func(active) bool, why string) {
	h := s.holders[agent]
	if h == nil {
		return
	}
	for _, id := range sortedKeys(h.skills) {
		a := h.skills[id]
		if !fits(a) {
			continue
		}
		delete(h.skills, id)
		s.given.remove(agent, a.label)
		s.cfg.Report(Event{Kind: EventDeactivated, Agent: agent, Skill: a.label, Path: a.skill.Path, Rules: a.granted, Why: why})
	}
}

// sweep drops what agents have that are gone.
func (s *shelf) sweep() {
	for _, agent := range s.given.sweep() {
		s.takeBackFrom(agent, func(active) bool { return true }, "the agent ended")
		delete(s.holders, agent)
	}
}

func (s *shelf) labels(agent string) []string {
	names := []string{}
	if h := s.holders[agent]; h != nil {
		for _, a := range h.skills {
			names = append(names, a.label)
		}
	}
	slices.Sort(names)
	return names
}

func (s *shelf) listHolders() map[string][]string {
	all := map[string][]string{}
	for _, agent := range sortedKeys(s.holders) {
		for id := range s.holders[agent].skills {
			all[id] = append(all[id], agent)
		}
	}
	return all
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

// texts are the texts of the agent's active skills; with shown the newest first and within the budget.
func (s *shelf) texts(m texts) []Activation {
	h := s.holders[m.agent]
	if h == nil {
		return nil
	}
	have := make([]active, 0, len(h.skills))
	for _, a := range h.skills {
		have = append(have, a)
	}
	if !m.shown {
		slices.SortFunc(have, func(a, b active) int { return cmp.Compare(a.label, b.label) })
	} else {
		slices.SortFunc(have, func(a, b active) int { return cmp.Compare(b.order, a.order) })
		clear(h.shown)
	}
	var all []Activation
	left := m.budget.Total
	for _, a := range have {
		out := a.activation()
		if m.shown {
			out.Instructions = m.budget.fit(out.Instructions, left)
			if out.Instructions == "" && a.text.Value() != "" {
				continue // no room; it is shown again when it is taken again
			}
			left -= len(out.Instructions)
			if out.Instructions == a.text.Value() {
				h.shown[a.skill.ID] = showing{reading{skill: a.skill, hash: a.hash}.version(), m.epoch}
			}
		}
		all = append(all, out)
	}
	return all
}
