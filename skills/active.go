package skills

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unique"

	"symbio/internal/security/visible"
	"symbio/security/permission"
)

// Initiator is the kind of requester that activates a skill for an agent. The zero value counts as
// ByModel, which has the fewest rights.
type Initiator string

// The initiators.
const (
	ByModel Initiator = "model"
	// ByPerson: a person named the skill in a message.
	ByPerson Initiator = "person"
	// ByTrigger: a trigger of the skill matches a person's task. Only a skill that says so (auto) and
	// that a person trusts is activated, with the rights of ByModel.
	ByTrigger Initiator = "trigger"
	// ByDefinition: the agent's definition names the skill. It stays when a turn ends.
	ByDefinition Initiator = "definition"
	// ByBorrower: the agent is lent, and the one of another node that borrows it has the skill. Only a
	// skill that a person of this node trusts is activated, with the rights of ByModel. It stays when a
	// turn ends.
	ByBorrower Initiator = "borrower"
)

// AtStart reports whether the skills belong to an agent from its start: they stay when a turn ends, and
// are activated again when the agent is restarted.
func (i Initiator) AtStart() bool { return i == ByDefinition || i == ByBorrower }

// NeedsTrust reports whether only skills that a person trusts are activated, so that no person is asked.
func (i Initiator) NeedsTrust() bool { return i == ByTrigger || i == ByBorrower }

// GrantTTL is how long a skill stays active unless it is deactivated.
type GrantTTL string

// The lifetimes of an activation.
const (
	// GrantSession lasts as long as the agent.
	GrantSession GrantTTL = "session"
	// GrantTurn lasts until a person's next message.
	GrantTurn GrantTTL = "turn"
)

// ActivateRequest names a skill to activate and the agent to activate it for.
type ActivateRequest struct {
	// Agent identifies the agent within the registry.
	Agent string
	// Name is the exact name of a skill, or the path of its SKILL.md as the catalog shows it. Path
	// is always such a path. If Path is set, Name is ignored.
	Name, Path string
	By         Initiator
	// Hash is the SHA-256 that the SKILL.md must have, in hex; "" = any. Another one is ErrChanged.
	Hash string
	// Arguments take the places in the text that name them. They are text for the model: no rule
	// that the skill grants or asks for has them. At most MaxArguments bytes.
	Arguments string
	// Force returns the full text even if the model has it in its conversation.
	Force bool
	// Epoch counts how often the agent's conversation was shortened. A text that was shown in an
	// earlier epoch is shown again, because it may be gone from the conversation.
	Epoch int
	// May returns nil if the agent may activate a skill that the requested one depends on. The
	// registry's actor calls it. Default: it may activate all.
	May func(Skill) error
	// chain are the skills that need this one, the first requested one first.
	chain []Skill
}

// maxEventText limits text of models and files in an event, in characters. Events go to the log and
// to other nodes.
const maxEventText = 500

// activeSkills holds the active skills of all agents. Only the registry's actor uses it. Other
// goroutines read the published map.
type activeSkills struct {
	// cfg is the configuration of the start. Its Choices are outdated after a change; library has
	// the present ones.
	cfg Config
	// agents are the agents that have activated a skill, by ActivateRequest.Agent.
	agents map[string]*agentSkills
	// published has the *agentGrants by agent. Any goroutine may read it.
	published *sync.Map
	// activations counts all activations. The count at an activation gives the order of the skills.
	activations int
}

// agentSkills is one agent's state. It stays after the last skill was deactivated, because shown
// must stay.
type agentSkills struct {
	// gone is shared with the agent's grants; see agentGrants.
	gone *atomic.Bool
	// skills are the active skills, by the skill's id.
	skills map[string]activeSkill
	// shown is the last text that the agent's model was given of each skill, by id.
	shown map[string]shownVersion
}

// activeSkill is one skill that is active for one agent. The label of its grant is unique among the
// agent's skills.
type activeSkill struct {
	skill Skill
	grant *grant
	by    Initiator
	// direct reports that the skill was asked for, not only by the skills that depend on it: these
	// are the holders, by id.
	direct  bool
	holders map[string]bool
	// order is the number of the activation; a higher one is newer.
	order int
	// text is the instructions. Many agents have the same text, which is kept once.
	text unique.Handle[string]
	// hash is the SHA-256 of the SKILL.md that was activated.
	hash string
	// arguments come from the request, and version identifies the text that they led to.
	arguments, version string
	// granted, withheld and proposed are as in Activation.
	granted  []string
	withheld []WithheldRule
	proposed []string
}

// shownVersion is the version of a text that a model was shown, and the epoch of the conversation.
type shownVersion struct {
	version string
	epoch   int
}

// accept activates a skill again, with the rules that a person has accepted. It keeps the initiator
// and the arguments of the first activation: a skill that a person started stays available to that
// person only.
func (s *activeSkills) accept(lib *library, m accept) (Activation, error) {
	if id, found := s.find(m.Agent, m.Name); found {
		before := s.agents[m.Agent].skills[id]
		m.By, m.Arguments = before.by, before.arguments
	}
	return s.activate(lib, m.ActivateRequest, m.hash)
}

// activate handles an ActivateRequest. accepted is the hash of the SKILL.md that a person has
// accepted, "" without such a decision. On an error nothing changes, and the refusal is reported as
// an event.
func (s *activeSkills) activate(lib *library, w ActivateRequest, accepted string) (Activation, error) {
	w.By = cmp.Or(w.By, ByModel)
	listed, fresh, err := s.load(lib, w)
	var gets grantDecision
	if err == nil {
		gets, err = s.cfg.decideGrants(fresh.skill, fresh.hash, accepted)
	}
	if err != nil {
		// A model's text may be long.
		wanted := visible.TruncateRunes(oneLine(cmp.Or(listed.Name, w.Path, w.Name)), maxEventText)
		s.cfg.Report(Event{Kind: EventRefused, Agent: w.Agent, Skill: wanted, Path: listed.Path, By: string(w.By),
			Why: visible.TruncateRunes(oneLine(err.Error()), maxEventText)})
		return Activation{}, err
	}
	h := s.agents[w.Agent]
	if h == nil {
		h = &agentSkills{gone: &atomic.Bool{}, skills: map[string]activeSkill{}, shown: map[string]shownVersion{}}
		s.agents[w.Agent] = h
	}
	before, again := h.skills[listed.ID]
	s.activations++
	now := activeSkill{skill: fresh.skill, by: w.By, order: s.activations, text: unique.Make(fresh.skill.expand(fresh.body, w.Arguments)),
		hash: fresh.hash, arguments: w.Arguments, withheld: gets.withheld, proposed: gets.proposed}
	now.setHolder(w, before, again && accepted != "")
	now.grant = &grant{label: labelFor(listed, h.skills), rules: gets.rules, skillDir: skillDirOf(listed),
		valid: s.cfg.grantValidity(fresh, gets.byTrust), trusted: gets.trusted}
	changed := len(gets.rules) > 0
	if again {
		now.grant.label = before.grant.label
		changed = !slices.EqualFunc(before.grant.rules, gets.rules, permission.Rule.Equal) || before.grant.ended.Load()
	}
	if again && before.by.AtStart() {
		now.by = before.by
	}
	for _, rule := range gets.rules {
		now.granted = append(now.granted, rule.String())
	}
	now.version = fresh.version() + " " + w.Arguments
	a := now.activation()
	a.Already = again
	a.Repeat = !w.Force && h.shown[listed.ID] == shownVersion{now.version, w.Epoch}
	h.skills[listed.ID] = now
	// The result of an accepted activation goes to a person, so no model was shown it.
	if accepted == "" {
		h.shown[listed.ID] = shownVersion{now.version, w.Epoch}
	}
	s.publish(w.Agent)
	s.report(w, before, now, again, changed)
	if accepted == "" { // else they are active already, and w.May is not known
		a.Depends, a.Unmet = s.activateDependencies(lib, w, fresh.skill)
	}
	return a, nil
}

// setHolder records for what the skill is activated, beside its earlier purposes.
// accepted reports that it is active, and a person has only accepted its rules.
func (a *activeSkill) setHolder(w ActivateRequest, before activeSkill, accepted bool) {
	a.direct, a.holders = before.direct || len(w.chain) == 0 && !accepted, before.holders
	if a.holders == nil {
		a.holders = map[string]bool{}
	}
	if len(w.chain) > 0 {
		a.holders[w.chain[len(w.chain)-1].ID] = true
	}
}

// publish makes the agent's present skills visible to all goroutines.
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

// load finds the requested skill, checks that w.By may activate it, and reads it from the disk. It
// checks the file's flags again after the read, because they can have changed since the scan.
func (s *activeSkills) load(lib *library, w ActivateRequest) (listed Skill, fresh loadResult, err error) {
	listed, err = lib.catalog.Resolve(cmp.Or(w.Path, w.Name), s.cfg.Duplicates)
	if err != nil {
		return Skill{}, loadResult{}, err
	}
	if w.Path != "" && w.Path != listed.Path && w.Path != listed.Dir {
		return Skill{}, loadResult{}, fmt.Errorf("%w: %q", ErrNotFound, w.Path)
	}
	if why := listed.checkInitiator(w.By); why != nil {
		return listed, loadResult{}, fmt.Errorf("activate %s: %w", listed.Name, why)
	}
	fresh = s.cfg.read(listed)
	if err := fresh.err(); err != nil {
		return listed, fresh, err
	}
	fresh.skill.Exposure = lib.cfg.Choices.Exposure(fresh.skill)
	// The file may have changed since the scan.
	if why := fresh.skill.checkInitiator(w.By); why != nil {
		return listed, fresh, fmt.Errorf("activate %s: %w", listed.Name, why)
	}
	if w.Hash != "" && w.Hash != fresh.hash {
		return listed, fresh, fmt.Errorf("activate %s: %w: its SHA-256 is %s, not %s", listed.Name, ErrChanged, fresh.hash, w.Hash)
	}
	if err := s.cfg.checkTrust(w, fresh); err != nil {
		return listed, fresh, err
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

// report emits the events of a successful activation. A repeated activation that changed nothing
// emits none.
func (s *activeSkills) report(w ActivateRequest, before, now activeSkill, again, changed bool) {
	e := Event{Kind: EventActivated, Agent: w.Agent, Skill: now.grant.label, Path: now.skill.Path}
	loaded := e
	loaded.Version, loaded.By = now.skill.Version, string(w.By)
	if len(w.chain) > 0 {
		loaded.Why = w.chain[len(w.chain)-1].Name + " depends on it"
	}
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

// endGrant removes the rules of a grant that is no longer valid, and reports it. The skill stays
// active without them.
func (s *activeSkills) endGrant(m endGrant) {
	s.cfg.Report(Event{Kind: EventRefused, Agent: m.agent, Skill: m.grant.label, Why: "what it granted has ended: its SKILL.md was changed or deleted, or the trust in it revoked"})
	if h := s.agents[m.agent]; h != nil {
		for id, a := range h.skills {
			if a.grant == m.grant {
				// Without rules and without trust, so its scripts do not run either.
				a.grant = &grant{label: a.grant.label, skillDir: a.grant.skillDir, valid: a.grant.valid}
				h.skills[id] = a
			}
		}
		s.publish(m.agent)
	}
}

// activation returns what the caller of Activate gets.
func (a activeSkill) activation() Activation {
	return Activation{Skill: a.skill, Instructions: a.text.Value(), Hash: a.hash, Granted: a.granted, Withheld: a.withheld, Proposed: a.proposed}
}

// find returns the id of the agent's active skill with that label, path or directory.
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

// deactivate ends one skill of one agent. ErrNotActive lists the skills that are active.
func (s *activeSkills) deactivate(m deactivate) error {
	id, found := s.find(m.agent, m.name)
	if !found {
		return fmt.Errorf("deactivate %q: %w; active are: %s", m.name, ErrNotActive, cmp.Or(strings.Join(s.labels(m.agent), ", "), "none"))
	}
	s.deactivateOf(m.agent, func(a activeSkill) bool { return a.skill.ID == id }, "given back")
	return nil
}

// deactivateAll ends the matching skills of all agents. The order is fixed, so that events are
// reproducible.
func (s *activeSkills) deactivateAll(fits func(activeSkill) bool, why string) {
	for _, agent := range sortedKeys(s.agents) {
		s.deactivateOf(agent, fits, why)
	}
}

// deactivateOf ends the matching skills of one agent, and reports each. It keeps the versions that
// the model was shown: the text is still in the conversation.
func (s *activeSkills) deactivateOf(agent string, fits func(activeSkill) bool, why string) {
	h := s.agents[agent]
	if h == nil {
		return
	}
	var ended []activeSkill
	for _, id := range sortedKeys(h.skills) {
		if a := h.skills[id]; fits(a) {
			ended = append(ended, a)
			delete(h.skills, id)
		}
	}
	s.publish(agent)
	for _, a := range ended {
		s.removeHolder(agent, a.skill.ID)
		s.cfg.Report(Event{Kind: EventDeactivated, Agent: agent, Skill: a.grant.label, Path: a.skill.Path, Rules: a.granted, Why: why})
	}
	if len(ended) > 0 {
		s.endUnheld(agent)
	}
}

// release removes all state of an agent that has ended.
func (s *activeSkills) release(agent string) {
	s.deactivateOf(agent, func(activeSkill) bool { return true }, "the agent ended")
	delete(s.agents, agent)
}

// labels returns the labels of the agent's active skills, sorted. It never returns nil: JSON shows
// [].
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

// agentsBySkill returns the agents of each active skill, by the skill's id.
func (s *activeSkills) agentsBySkill() map[string][]string {
	all := map[string][]string{}
	for _, agent := range sortedKeys(s.agents) {
		for id := range s.agents[agent].skills {
			all[id] = append(all[id], agent)
		}
	}
	return all
}

// labelFor returns the name of the skill, or its path if the agent has another skill of that name.
func labelFor(skill Skill, mine map[string]activeSkill) string {
	for _, a := range mine {
		if a.grant.label == skill.Name {
			return skill.Path
		}
	}
	return skill.Name
}

// texts returns the texts of the agent's active skills, by label. With m.shown it returns the
// newest first, as many as maxAllReattached allows, and records them as shown in the epoch.
func (s *activeSkills) texts(m texts) []Activation {
	h := s.agents[m.agent]
	if h == nil {
		return nil
	}
	have := make([]activeSkill, 0, len(h.skills))
	for _, a := range h.skills {
		have = append(have, a)
	}
	if !m.shown {
		slices.SortStableFunc(have, func(a, b activeSkill) int { return cmp.Compare(a.grant.label, b.grant.label) })
	} else {
		slices.SortStableFunc(have, func(a, b activeSkill) int { return cmp.Compare(b.order, a.order) })
		clear(h.shown)
	}
	var all []Activation
	left := maxAllReattached
	for _, a := range have {
		out := a.activation()
		if m.shown {
			out.Instructions = cutReattached(out.Instructions, left)
			if out.Instructions == "" && a.text.Value() != "" {
				continue // no room; its next activation shows it in full
			}
			left -= len(out.Instructions)
			if out.Instructions == a.text.Value() {
				h.shown[a.skill.ID] = shownVersion{a.version, m.epoch}
			}
		}
		all = append(all, out)
	}
	return all
}
