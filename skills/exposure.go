package skills

import (
	"fmt"
	"slices"
)

// Exposure is the set of initiators that may activate a skill. The zero value means that only the
// skill's own flags count.
type Exposure string

// The exposures, widest first.
const (
	// On: models see the name and the description. Models and people can activate the skill.
	On Exposure = "on"
	// NameOnly: as On, but models see only the name, which saves space in prompts.
	NameOnly Exposure = "name-only"
	// PeopleOnly: models do not see the skill and cannot activate it. People can ($name).
	PeopleOnly Exposure = "user-invocable-only"
	// Off: neither models nor people can activate the skill.
	Off Exposure = "off"
)

// width orders exposures from strict to open. It returns -1 for a text that is not an exposure.
func (e Exposure) width() int { return slices.Index([]Exposure{Off, PeopleOnly, NameOnly, On}, e) }

// ParseExposure reads an exposure from a configuration. On an error it returns Off, the safe value.
func ParseExposure(text string) (Exposure, error) {
	if e := Exposure(text); e.width() >= 0 {
		return e, nil
	}
	return Off, fmt.Errorf("unknown exposure %q: write on, name-only, user-invocable-only or off", text)
}

// Choices are a person's settings for skills. A key is the name of a skill, the path of its
// SKILL.md, or its directory. Choices can only restrict: they cannot allow what the skill's own
// flags forbid. The zero value changes nothing.
type Choices struct {
	// Disabled are the skills that are off.
	Disabled []string `yaml:"disabled,omitempty" json:"disabled,omitempty"`
	// Overrides set the exposure of a skill. An unknown exposure counts as Off, and Check reports
	// it.
	Overrides map[string]Exposure `yaml:"overrides,omitempty" json:"overrides,omitempty"`
}

// Check returns an error for the first override with an unknown exposure.
func (c Choices) Check() error {
	for _, name := range sortedKeys(c.Overrides) {
		if _, err := ParseExposure(string(c.Overrides[name])); err != nil {
			return fmt.Errorf("overrides: %s: %w", name, err)
		}
	}
	return nil
}

// Exposure returns the strictest of the choices and of the skill's own flags.
func (c Choices) Exposure(s Skill) Exposure {
	e := On
	if s.UserOnly {
		e = PeopleOnly
	}
	for _, key := range []string{s.Name, s.Path, s.Dir} {
		if slices.Contains(c.Disabled, key) {
			return Off
		}
		if o, set := c.Overrides[key]; set {
			if o.width() < 0 {
				return Off
			}
			if o.width() < e.width() {
				e = o
			}
		}
	}
	return e
}

// Apply returns a copy of the catalog in which each skill has its Exposure.
func (c Choices) Apply(to Catalog) Catalog {
	to.Skills = slices.Clone(to.Skills)
	for i := range to.Skills {
		to.Skills[i].Exposure = c.Exposure(to.Skills[i])
	}
	return to
}

// ForModels reports whether models see the skill and can activate it.
func (s Skill) ForModels() bool { return !s.Superseded && !s.forPeople() && s.Exposure != Off }

// forPeople reports whether models cannot activate the skill, but people can.
func (s Skill) forPeople() bool { return s.UserOnly || s.Exposure == PeopleOnly }

// checkInitiator returns the error with which the skill refuses an initiator, nil if it does not.
func (s Skill) checkInitiator(by Initiator) error {
	switch {
	case s.Exposure == Off:
		return ErrDisabled
	case by == ByPerson && s.ModelOnly:
		return ErrModelOnly
	case by != ByPerson && s.forPeople():
		return ErrUserOnly
	}
	return nil
}
