package skills

import (
	"fmt"
	"slices"
)

// Exposure says who may take a skill. The zero value leaves it to the skill's own flags.
type Exposure string

// The exposures, widest first (skills.md 2.4).
const (
	// On: listed for models with its description, and taken by models and people.
	On Exposure = "on"
	// NameOnly: the same, but listed without its description, which saves room in prompts.
	NameOnly Exposure = "name-only"
	// PeopleOnly: not listed for models and not taken by them; people may ($name).
	PeopleOnly Exposure = "user-invocable-only"
	// Off: nobody takes it.
	Off Exposure = "off"
)

// width orders exposures; a smaller one is stricter.
func (e Exposure) width() int { return slices.Index([]Exposure{Off, PeopleOnly, NameOnly, On}, e) }

// ParseExposure reads an exposure as a person writes it. With an error it answers Off.
func ParseExposure(text string) (Exposure, error) {
	if e := Exposure(text); e.width() >= 0 {
		return e, nil
	}
	return Off, fmt.Errorf("%q says not who may take a skill: write on, name-only, user-invocable-only or off", text)
}

// Choices are what a person set about skills, each named by its name, or by the path of its SKILL.md or
// its directory. They only narrow: what a skill's own flags rule out, no choice brings back. The zero
// value changes nothing.
type Choices struct {
	// Disabled are off.
	Disabled []string `yaml:"disabled,omitempty" json:"disabled,omitempty"`
	// Overrides say it more finely. What is no exposure counts as Off; Check finds it.
	Overrides map[string]Exposure `yaml:"overrides,omitempty" json:"overrides,omitempty"`
}

// Check returns what in the choices cannot be meant.
func (c Choices) Check() error {
	for _, name := range sortedKeys(c.Overrides) {
		if _, err := ParseExposure(string(c.Overrides[name])); err != nil {
			return fmt.Errorf("overrides: %s: %w", name, err)
		}
	}
	return nil
}

// Exposure is what comes of the choices and of the skill's own flags: the strictest of them.
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

// Apply returns the catalog with each skill's Exposure set by the choices.
func (c Choices) Apply(to Catalog) Catalog {
	to.Skills = slices.Clone(to.Skills)
	for i := range to.Skills {
		to.Skills[i].Exposure = c.Exposure(to.Skills[i])
	}
	return to
}

// ForModels reports whether a model may see and take the skill.
func (s Skill) ForModels() bool {
	return !s.UserOnly && s.Exposure != PeopleOnly && s.Exposure != Off
}

// refuses says why the skill is not for who asks; nil when it is.
func (s Skill) refuses(by Taker) error {
	switch {
	case s.Exposure == Off:
		return ErrDisabled
	case by == ByPerson && s.ModelOnly:
		return ErrModelOnly
	case by != ByPerson && !s.ForModels():
		return ErrUserOnly
	}
	return nil
}
