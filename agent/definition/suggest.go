package definition

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"symbio/community"
	"symbio/internal/security/visible"
)

// maxListed is how many names fit a message that a person reads at a glance.
const maxListed = 24

// suggest returns the end of a message about an unknown name: the known name that was probably
// meant, or all known names if they are few.
func suggest(name string, known []string) string {
	if near := visible.Suggest(name, known); near != "" || len(known) == 0 || len(known) > maxListed {
		return near
	}
	return "; there are " + strings.Join(slices.Sorted(slices.Values(known)), ", ")
}

// Set are definitions by their names.
type Set map[string]Definition

// Find returns the definition with this name; "" is general. The
// error is community.ErrNotFound and lists the known names.
func (s Set) Find(name string) (Definition, error) {
	name = cmp.Or(name, "general")
	if d, ok := s[name]; ok {
		return d, nil
	}
	return Definition{}, fmt.Errorf("agent definition %q: %w%s; known are %s; the key agents names the directory of others", name, community.ErrNotFound, visible.Suggest(name, slices.Collect(maps.Keys(s))),
		strings.Join(slices.Sorted(maps.Keys(s)), ", "))
}

// Warned counts the definitions with warnings, and says in a line what the first is and how to see all; "" if there are none.
func (s Set) Warned() (n int, text string) {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if warnings := s[name].Warnings; len(warnings) > 0 {
			if n++; n == 1 {
				text = warnings[0].Error()
			}
		}
	}
	if n > 0 {
		text += "; symbio agents validate shows all"
	}
	return n, text
}
