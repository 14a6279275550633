package skills

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unique"

	"symbio/security/visible"
)

// Taker is on whose behalf an agent takes a skill. The zero value is ByModel, which may least.
type Taker string

// The takers.
const (
	ByModel      Taker = "model"
	ByPerson     Taker = "person"     // named it in their message
	ByDefinition Taker = "definition" // the agent's definition names it; it stays when a turn ends
)

// GrantTTL is how long a skill stays active if its agent does not give it back (skills.md C35).
type GrantTTL string

// The lives of an activation.
const (
	GrantSession GrantTTL = "session" // as long as its agent
	GrantTurn    GrantTTL = "turn"    // until a person's next message
)

// Want names a skill and the agent that wants it.
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

// maxEventText bounds what an event repeats of what others wrote, in characters.
const maxEventText = 500

// activeSkills are the skills that agents have taken. Only the registry's actor uses it, beside what it publishes.
type activeSkills struct {
	cfg       Config // but for its choices, which change
	agents    map[string]*holder
	published *sync.Map // of *agentGrants, by agent
	taken     int       // how many skills were ever taken, for their order
}

// holder is an agent and what it has.
type holder struct {
	gone   *atomic.Bool       // see agentGrants
	skills map[string]active  // by the skill's id
	shown  map[string]showing // the last text that its model was given of each skill, by id
}

// active is a skill that an agent has. The label of its grant is unique among the agent's skills.
type active struct {
	skill    Skill
	grant    *grant
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

// accept takes a skill again for the one for whom it was taken, with what a person has said yes to.
func (s *activeSkills) accept(lib *library, m accept) (Activation, error) {
	if id, found := s.find(m.Agent, m.Name); found {
		m.By = s.agents[m.Agent].skills[id].by
	}
	return s.take(lib, m.Want, m.hash)
}

func (s *activeSkills) take(lib *library, w Want, accepted string) (Activation, error) {
	w.By = cmp.Or(w.By, ByModel)
	listed, fresh, err := s.fetch(lib, w)
	var gets grants
	if err == nil {
		gets, err = s.cfg.grantsOf(fresh.skill, fresh.hash, accepted)
	}
	if err != nil {
		// What a model wrote may be long.
		wanted := visible.TruncateRunes(oneLine(cmp.Or(listed.Name, w.Path, w.Name)), maxEventText)
		s.cfg.Report(Event{Kind: EventRefused, Agent: w.Agent, Skill: wanted, Path: listed.Path, By: string(w.By), Why: visible.TruncateRunes(oneLine(err.Error()), maxEventText)})
		return Activation{}, err
	}
	h := s.agents[w.Agent]
	if h == nil {
		h = &holder{gone: &atomic.Bool{}, skills: map[string]active{}, shown: map[string]showing{}}
		s.agents[w.Agent] = h
	}
	before, again := h.skills[listed.ID]
	s.taken++
	now := active{skill: fresh.skill, by: w.By, order: s.taken, text: unique.Make(fresh.skill.inPlace(fresh.body)), hash: fresh.hash, withheld: gets.withheld, proposed: gets.proposed}
	now.grant = &grant{label: labelFor(listed, h.skills), rules: gets.rules, home: homeOf(listed), holds: s.cfg.holds(fresh, gets.byTrust)}
	changed := len(gets.rules) > 0
	if again {
		now.grant.label = before.grant.label
		changed = !slices.Equal(before.grant.rules, gets.rules) || before.grant.ended.Load()
	}
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
	if accepted == "" { // else no model is shown what this returns
		h.shown[listed.ID] = showing{version, w.Epoch}
	}
	s.publish(w.Agent)
	s.report(w, before, now, again, changed)
	return a, nil
}

// publish has every goroutine see what an agent has now.
func (s *activeSkills) publish(agent string) {
	h := s.agents[agent]
	if h == nil || len(h.skills) == 0 {
		s.published.Delete(agent)
		return
	}
	all := make([]*grant, 0, len(h.skills))
	for _, a := range h.skills {
		all = append(all, a.grant)
	}
	s.published.Store(agent, newAgentGrants(h.gone, all))
}

// fetch finds the skill that is wanted, checks that w.By may have it, and reads it.
func (s *activeSkills) fetch(lib *library, w Want) (listed Skill, fresh reading, err error) {
	listed, err = lib.catalog.Resolve(cmp.Or(w.Path, w.Name), s.cfg.Duplicates)
	if err != nil {
		return Skill{}, reading{}, err
	}
	if w.Path != "" && w.Path != listed.Path && w.Path != listed.Dir {
		return Skill{}, reading{}, notFound(w.Path, "")
	}
	if why := listed.refuses(w.By); why != nil {
		return listed, reading{}, fmt.Errorf("activate %s: %w", listed.Name, why)
	}
	fresh = s.cfg.read(listed)
	if err := fresh.err(); err != nil {
		return listed, fresh, err
	}
	fresh.skill.Exposure = lib.cfg.Choices.Exposure(fresh.skill)
	if why := fresh.skill.refuses(w.By); why != nil { // the file says so since the scan
		return listed, fresh, fmt.Errorf("activate %s: %w", listed.Name, why)
	}
	if fresh.skill.Name != listed.Name {
		// The rules allowed the other name.
		return listed, fresh, fmt.Errorf("%w: the skill %q calls itself %q now", ErrNotFound, listed.Name, fresh.skill.Name)
	}
	h := s.agents[w.Agent]
	if h == nil {
		return listed, fresh, nil
	}
	if _, again := h.skills[listed.ID]; !again && len(h.skills) >= s.cfg.MaxActive {
		return listed, fresh, fmt.Errorf("activate %s: %w: %d, which is the limit; give one back first: %s", listed.Name, ErrTooMany, s.cfg.MaxActive, strings.Join(s.labels(w.Agent), ", "))
	}
	return listed, fresh, nil
}

// report reports what a successful take has changed.
func (s *activeSkills) report(w Want, before, now active, again, changed bool) {
	e := Event{Kind: EventActivated, Agent: w.Agent, Skill: now.grant.label, Path: now.skill.Path}
	loaded := e
	loaded.Version, loaded.By = now.skill.Version(), string(w.By)
	switch {
	case !again:
		s.cfg.Report(loaded)
	case before.hash != now.hash:
		loaded.Kind = EventReloaded
		s.cfg.Report(loaded)
	case !changed:
		return
	}
	if changed && len(now.granted) > 0 {
		e.Kind, e.Rules = EventGranted, now.granted
		s.cfg.Report(e)
	}
	if len(now.withheld) > 0 {
		e.Kind, e.Rules, e.Withheld, e.Why = EventRefused, nil, now.withheld, "not all that it asks for is granted"
		s.cfg.Report(e)
	}
}

// lapsed drops a grant that does not hold any more, and reports it.
func (s *activeSkills) lapsed(m lapsed) {
	s.cfg.Report(Event{Kind: EventRefused, Agent: m.agent, Skill: m.grant.label, Why: "what it granted has ended: its SKILL.md was changed or deleted, or the trust in it revoked"})
	if h := s.agents[m.agent]; h != nil {
		for id, a := range h.skills {
			if a.grant == m.grant {
				a.grant = &grant{label: a.grant.label, home: a.grant.home, holds: a.grant.holds}
				h.skills[id] = a
			}
		}
		s.publish(m.agent)
	}
}

func (a active) activation() Activation {
	return Activation{Skill: a.skill, Instructions: a.text.Value(), Hash: a.hash, Granted: a.granted, Withheld: a.withheld, Proposed: a.proposed}
}

// find returns the active skill of an agent that has that label, path or directory.
func (s *activeSkills) find(agent, name string) (id string, found bool) {
	if h := s.agents[agent]; h != nil {
		for id, a := range h.skills {
			if name == a.grant.label || name == a.skill.Path || name == a.skill.Dir {
				return id, true
			}
		}
	}
	return "", false
}

func (s *activeSkills) deactivate(m deactivate) error {
	id, found := s.find(m.agent, m.name)
	if !found {
		return fmt.Errorf("deactivate %q: %w; active are: %s", m.name, ErrNotActive, cmp.Or(strings.Join(s.labels(m.agent), ", "), "none"))
	}
	s.takeBackFrom(m.agent, func(a active) bool { return a.skill.ID == id }, "given back")
	return nil
}

// takeBack takes the skills that fit from all agents.
func (s *activeSkills) takeBack(fits func(active) bool, why string) {
	for _, agent := range sortedKeys(s.agents) {
		s.takeBackFrom(agent, fits, why)
	}
}

// takeBackFrom takes the skills that fit from an agent. What its model was shown stays known.
func (s *activeSkills) takeBackFrom(agent string, fits func(active) bool, why string) {
	h := s.agents[agent]
	if h == nil {
		return
	}
	var ended []active
	for _, id := range sortedKeys(h.skills) {
		if a := h.skills[id]; fits(a) {
			ended = append(ended, a)
			delete(h.skills, id)
		}
	}
	s.publish(agent)
	for _, a := range ended {
		s.cfg.Report(Event{Kind: EventDeactivated, Agent: agent, Skill: a.grant.label, Path: a.skill.Path, Rules: a.granted, Why: why})
	}
}

// release drops an agent that has ended.
func (s *activeSkills) release(agent string) {
	s.takeBackFrom(agent, func(active) bool { return true }, "the agent ended")
	delete(s.agents, agent)
}

func (s *activeSkills) labels(agent string) []string {
	names := []string{}
	if h := s.agents[agent]; h != nil {
		for _, a := range h.skills {
			names = append(names, a.grant.label)
		}
	}
	slices.Sort(names)
	return names
}

// holders are the agents of each skill, by its id.
func (s *activeSkills) holders() map[string][]string {
	all := map[string][]string{}
	for _, agent := range sortedKeys(s.agents) {
		for id := range s.agents[agent].skills {
			all[id] = append(all[id], agent)
		}
	}
	return all
}

// labelFor is the skill's name, or its path when the agent has another skill of that name.
func labelFor(skill Skill, mine map[string]active) string {
	for _, a := range mine {
		if a.grant.label == skill.Name {
			return skill.Path
		}
	}
	return skill.Name
}

// texts are the texts of the agent's active skills; with shown the newest first and within the budget.
func (s *activeSkills) texts(m texts) []Activation {
	h := s.agents[m.agent]
	if h == nil {
		return nil
	}
	have := make([]active, 0, len(h.skills))
	for _, a := range h.skills {
		have = append(have, a)
	}
	if !m.shown {
		slices.SortFunc(have, func(a, b active) int { return cmp.Compare(a.grant.label, b.grant.label) })
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
