package community

import "slices"

// DefinitionKey is the metadata key under which an agent has the name of its definition. That name can also be one
// of its perceptions.
const DefinitionKey = "definition"

// DefaultPerception returns the perception for a signal that names none: the member's only one, or the only one
// beside the name of its definition. ok is false if there is none, or more than one.
func (m Member) DefaultPerception() (perception string, ok bool) {
	others := m.Accepts
	if kind := m.Metadata[DefinitionKey]; len(others) > 1 && slices.Contains(others, kind) {
		others = slices.DeleteFunc(slices.Clone(others), func(p string) bool { return p == kind })
	}
	if len(others) != 1 {
		return "", false
	}
	return others[0], true
}
