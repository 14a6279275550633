package skills

import "symbio/skills/format"

// The three tiers of a skill. They read the disk as it is now, grant nothing,
// and answer "none" for what is not there or may not be read.

// Tier1 returns the catalog for a system prompt, "" if no skill is shown to models.
func (c Catalog) Tier1() string { return Render(c, PromptOptions{}).Text }

// enabled returns the skill with that name, if it is not switched off.
func (c Catalog) enabled(name string) (Skill, bool) {
	s, ok := c.Get(name)
	return s, ok && s.Exposure != Off
}

// Tier2 returns the instructions of the skill with that name. It reads the disk.
func (c Catalog) Tier2(name string) (text string, ok bool) {
	s, ok := c.enabled(name)
	if !ok {
		return "", false
	}
	// The policy of the scan has accepted every skill of a catalog, so the most lenient level reads
	// it again.
	r := Config{Policy: format.Policy{Level: format.Lenient}}.read(s)
	return r.body, r.err() == nil
}

// Tier3List returns the resources of one kind of a skill, as paths from its directory.
func (c Catalog) Tier3List(name string, k ResourceKind) []string {
	s, ok := c.enabled(name)
	if !ok {
		return nil
	}
	list, _ := s.Resources(k) // none of the forbidden ones
	return list
}

// Tier3 returns the text of a resource. rel is its path from the skill's directory.
func (c Catalog) Tier3(name, rel string) (text string, ok bool) {
	s, ok := c.enabled(name)
	if !ok {
		return "", false
	}
	text, err := s.Resource(rel)
	return text, err == nil
}
