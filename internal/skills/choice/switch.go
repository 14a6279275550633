package choice

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"symbio/internal/security/visible"
)

// Skill is a skill that can be switched.
type Skill interface {
	GetName() string
	GetPath() string // of its SKILL.md
}

// Matches reports whether arg names the skill: by its name, its path or its directory.
func Matches(s Skill, arg string) bool {
	return arg == s.GetName() || arg == s.GetPath() || arg+string(filepath.Separator)+"SKILL.md" == s.GetPath()
}

// Switch writes the choices of a person about the skills in All. It is for one goroutine. Other
// processes may change the same book at the same time, because each choice is a file of its own.
type Switch[S Skill] struct {
	Book Book
	// Off are the choices before. They are not updated by Set.
	Off []Choice
	// All are the skills that the person sees. A choice can be about a skill of another directory,
	// which is not among them.
	All []S
}

// IsOff reports whether the person has switched that name or path off.
func (s Switch[S]) IsOff(key string) bool {
	return slices.ContainsFunc(s.Off, func(o Choice) bool { return o.Skill == key })
}

// Matching returns the skills that arg names. A name can match several skills, a path at most one.
func (s Switch[S]) Matching(arg string) (found []S) {
	for _, k := range s.All {
		if Matches(k, arg) {
			found = append(found, k)
		}
	}
	return found
}

// Set switches the skills that arg names on or off. Switching on removes all choices that keep them
// off. Enabling a skill that is on is no error.
func (s Switch[S]) Set(arg string, on bool) error {
	found := s.Matching(arg)
	if !on {
		// The directory of a skill is accepted as an argument, but choices are stored by the path
		// of the SKILL.md, as the catalog has it.
		if len(found) == 1 && arg != found[0].GetName() {
			arg = found[0].GetPath()
		}
		return s.Book.Disable(arg)
	}
	keys := []string{arg}
	for _, k := range found {
		keys = append(keys, k.GetPath())
		// No other skill has the name, so a choice by name is about this one only.
		if len(s.Matching(k.GetName())) == 1 {
			// A list passes paths only. Without this key a skill that was switched off by its name
			// could not be switched on there.
			keys = append(keys, k.GetName())
		}
	}
	for _, key := range keys {
		// Most keys have no choice, which is not an error.
		if err := s.Book.Enable(key); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("switch %s on: %w", visible.Line(key, 0), err)
		}
	}
	return nil
}
