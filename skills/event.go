package skills

// EventKind is the kind of an Event.
type EventKind string

// What changes in a registry.
const (
	// EventCatalog: the catalog is another one: Count, Why, Listed.
	EventCatalog EventKind = "catalog_changed"
	// EventActivated: an agent took a skill: Agent, Skill, Path, Version, By.
	EventActivated EventKind = "skill_activated"
	// EventReloaded: an agent that has a skill took it again, and it had changed: as EventActivated.
	EventReloaded EventKind = "skill_reloaded"
	// EventGranted: an active skill grants rules, from now on: Agent, Skill, Rules.
	EventGranted EventKind = "skill_granted"
	// EventRefused: an agent did not get a skill (Why), or not all rules that it asks for (Withheld): Agent, Skill.
	EventRefused EventKind = "skill_refused"
	// EventDeactivated: an agent has a skill no more, nor what it granted: Agent, Skill, Path, Rules, Why.
	EventDeactivated EventKind = "skill_deactivated"
)

// Event is a change in a registry. Only the fields that its kind names are set.
type Event struct {
	Kind  EventKind `json:"-"`
	Agent string    `json:"-"`
	Skill string    `json:"skill,omitempty"`
	Path  string    `json:"path,omitempty"`
	// Version is the skill's own, By who took it.
	Version string `json:"version,omitempty"`
	By      string `json:"by,omitempty"`
	// Rules are those granted, or taken back.
	Rules    []string   `json:"rules,omitempty"`
	Withheld []Withheld `json:"withheld,omitempty"`
	Why      string     `json:"why,omitempty"`
	// Count is how many skills there are now, Listed the names of those that models are shown, the first 20.
	Count  int      `json:"count,omitempty"`
	Listed []string `json:"listed,omitempty"`
}

// mostListed keeps an event about a large catalog small.
const mostListed = 20

// catalogEvent says what the catalog is now, and why it changed.
func catalogEvent(c Catalog, why string) Event {
	e := Event{Kind: EventCatalog, Count: len(c.Skills), Why: why}
	for _, s := range c.Skills {
		if s.ForModels() && len(e.Listed) < mostListed {
			e.Listed = append(e.Listed, s.Name)
		}
	}
	return e
}
