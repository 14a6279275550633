package skills

import (
	"slices"

	"symbio/skills/format"
)

// The three tiers, as skills-tiers.md names them. They read the disk as it is now, grant nothing, and
// answer "none" for what is not there or may not be read.

// Tier1 is the catalog for a system prompt; "" when there is nothing to show.
func (c Catalog) Tier1() string { return Render(c, PromptOptions{}).Text }

// Tier2 is the instructions of a skill, by its name.
func (c Catalog) Tier2(name string) (text string, ok bool) {
	s, ok := c.Get(name)
	if !ok || s.Exposure == Off {
		return "", false
	}
	// What is in a catalog was read by its policy already.
	r := Config{Policy: format.Policy{Level: format.Lenient}}.read(s)
	return r.body, r.err() == nil
}

// Tier3List lists the resources of a skill that are of one kind, by their paths from its directory.
func (c Catalog) Tier3List(name string, k Kind) []string {
	s, ok := c.Get(name)
	if !ok || s.Exposure == Off {
		return nil
	}
	list, err := s.Resources(k)
	if err != nil {
		return nil
	}
	return slices.Clip(list)
}

// Tier3 is the text of a resource, by its path from the skill's directory.
func (c Catalog) Tier3(name, rel string) (text string, ok bool) {
	s, ok := c.Get(name)
	if !ok || s.Exposure == Off {
		return "", false
	}
	text, err := s.Resource(rel)
	return text, err == nil
}
