package skills

// EventKind is the kind of an Event.
type EventKind string

// The kinds. The names after the colon are the fields that are set.
const (
	// EventCatalog: the catalog has changed: Count, Why, Listed.
	EventCatalog EventKind = "catalog_changed"
	// EventActivated: a skill was activated for an agent: Agent, Skill, Path, Version, By; Why if
	// another skill depends on it.
	EventActivated EventKind = "skill_activated"
	// EventReloaded: an active skill was activated again with a new text: as EventActivated.
	EventReloaded EventKind = "skill_reloaded"
	// EventGranted: an active skill grants rules from now on: Agent, Skill, Rules.
	EventGranted EventKind = "skill_granted"
	// EventRefused: a skill was not activated (Why), or not all of its rules were granted
	// (Withheld): Agent, Skill.
	EventRefused EventKind = "skill_refused"
	// EventDeactivated: a skill and its grants have ended for an agent: Agent, Skill, Path, Rules,
	// Why.
	EventDeactivated EventKind = "skill_deactivated"
)

// Event is a change in a registry. Only the fields of its kind are set.
type Event struct {
	Kind     EventKind      `json:"-"`
	Agent    string         `json:"-"`
	Why      string         `json:"-"`
	Skill    string         `json:"skill,omitempty" jsonschema:"the name of the skill"`
	Path     string         `json:"path,omitempty" jsonschema:"the path of the skill"`
	Version  string         `json:"version,omitempty" jsonschema:"the skill's own version"`
	By       string         `json:"by,omitempty" jsonschema:"who activated it"`
	Rules    []string       `json:"rules,omitempty" jsonschema:"the rules that it grants, or that ended with it"`
	Withheld []WithheldRule `json:"withheld,omitempty" jsonschema:"the rules that it asks for and does not get"`
	Count    int            `json:"count,omitempty" jsonschema:"the number of skills in the catalog"`
	Listed   []string       `json:"listed,omitempty" jsonschema:"the names of the first 20 that models see"`
}

// maxEventNames keeps an event about a large catalog small.
const maxEventNames = 20

// catalogEvent returns the event for a new catalog. why is the cause: scanned, changed, chosen,
// registered.
func catalogEvent(c Catalog, why string) Event {
	e := Event{Kind: EventCatalog, Count: len(c.Skills), Why: why}
	for _, s := range c.Skills {
		if s.ForModels() && len(e.Listed) < maxEventNames {
			e.Listed = append(e.Listed, s.Name)
		}
	}
	return e
}
