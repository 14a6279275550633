// Package choice stores which skills a person has switched off.
//
// A choice is about a name, wherever a skill of that name lies, or about one path. It belongs to
// the user and holds for all of the user's nodes; no project can carry one.
//
// Each choice is a file of its own, written completely or not at all, so that processes may choose
// at the same time. The number of listed choices is bounded. A file that other users could have
// written, or that cannot be read, is an error; the other choices still count.
//
// The package only stores: package skills applies a choice, together with the configuration.
package choice

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"symbio/internal/security/private"
	"symbio/skills"
)

// Choice is the choice that a skill is off.
type Choice struct {
	// Skill is a name, or the path of a SKILL.md as the catalog shows it.
	Skill string    `json:"skill"`
	Time  time.Time `json:"time"`
}

// Book is a directory of choices. Any number of processes may use it at a time; see private.Book.
type Book struct{ dir string }

// NewBook returns the book in a directory, which need not exist yet.
func NewBook(dir string) Book { return Book{dir} }

// choices returns the files of the book. They are not a field, since each package that uses a Book would compile them.
func choices(b Book) private.Book[Choice] {
	return private.Book[Choice]{Dir: b.dir, Key: func(o Choice) string { return o.Skill }}
}

// Choices returns the choices in the form that a registry takes.
func Choices(all []Choice) (c skills.Choices) {
	for _, o := range all {
		c.Disabled = append(c.Disabled, o.Skill)
	}
	return c
}

// Disable switches a skill off. It does nothing for a skill that is off. The error wraps
// private.ErrFull if the book is full.
func (b Book) Disable(skill string) error {
	if _, err := choices(b).Find(skill); err == nil {
		return nil
	}
	err := choices(b).Put(Choice{skill, time.Now().UTC().Truncate(time.Second)})
	switch {
	case errors.Is(err, private.ErrFull):
		return fmt.Errorf("switch %s off: %w; switch some on again with `symbio skills enable`", skill, err)
	case err != nil:
		return fmt.Errorf("switch %s off: %w", skill, err)
	}
	return nil
}

// Enable removes a choice, also one that cannot be read. fs.ErrNotExist: there is no such choice.
func (b Book) Enable(skill string) error { return choices(b).Remove(skill) }

// All returns the choices, by skill. With an error, which names the files that cannot be read, it
// also returns those that can.
func (b Book) All() ([]Choice, error) {
	all, err := choices(b).All()
	slices.SortStableFunc(all, func(x, y Choice) int { return strings.Compare(x.Skill, y.Skill) })
	if err != nil {
		err = fmt.Errorf("list the skills that are switched off: %w", err)
	}
	return all, err
}
