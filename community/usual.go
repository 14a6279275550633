package community

import "slices"

// DefinitionKey is the metadata under which an agent says what it is, such as the name of its definition. That may be one of its
// perceptions, by which it takes what it takes by the others.
const DefinitionKey = "definition"

// Usual is the perception by which a member is sent something when nobody says which: its only one, or its only one
// beside its kind. false: there is none, or there are several.
func (m Member) Usual() (perception string, ok bool) {
	others := m.Accepts
	if kind := m.Metadata[DefinitionKey]; len(others) > 1 && slices.Contains(others, kind) {
		others = slices.DeleteFunc(slices.Clone(others), func(p string) bool { return p == kind })
	}
	if len(others) != 1 {
		return "", false
	}
	return others[0], true
}
