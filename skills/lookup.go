package skills

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
)

// Duplicates selects what a name means that several skills have. The zero value is
// DuplicatesAmbiguous.
type Duplicates string

// The settings for a name of several skills.
const (
	DuplicatesAmbiguous  Duplicates = "ambiguous"  // nothing: choose one by its path
	DuplicatesPrecedence Duplicates = "precedence" // the first by scope, then of the deepest directory, then by path
)

// Resolve finds a skill as Find does. With DuplicatesPrecedence a name of several skills means the
// first by scope, then the one in the deepest directory, then the first by path.
func (c Catalog) Resolve(nameOrPath string, d Duplicates) (Skill, error) {
	s, err := c.Find(nameOrPath)
	if d != DuplicatesPrecedence || !errors.Is(err, ErrAmbiguous) {
		return s, err
	}
	return c.first(nameOrPath), nil
}

// first returns the skill that a name means by precedence, of each scope only the newest version. At least one skill must have the name.
func (c Catalog) first(name string) Skill {
	var named []Skill
	for _, s := range c.Skills {
		if s.Name == name && !s.Superseded {
			named = append(named, s)
		}
	}
	return slices.MinFunc(named, func(a, b Skill) int {
		return cmp.Or(cmp.Compare(a.Scope.rank(), b.Scope.rank()), cmp.Compare(depth(b.Dir), depth(a.Dir)), cmp.Compare(a.Path, b.Path))
	})
}

// depth counts the separators of a path, of any operating system: a bundled path has slashes
// everywhere.
func depth(path string) int { return strings.Count(path, "/") + strings.Count(path, `\`) }

// Get returns the skill with that name, the first by precedence if there are several.
func (c Catalog) Get(name string) (Skill, bool) {
	s, err := c.Resolve(name, DuplicatesPrecedence)
	return s, err == nil
}

// Contains reports whether a skill has that name or path.
func (c Catalog) Contains(nameOrPath string) bool {
	_, ok := c.Get(nameOrPath)
	return ok
}

// Names returns the distinct names of the skills, sorted.
func (c Catalog) Names() []string {
	names := make([]string, 0, len(c.Skills))
	for _, s := range c.Skills {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Count returns the number of skills. Skills with the same name count separately.
func (c Catalog) Count() int { return len(c.Skills) }

// ByTags returns the skills that have any of the tags, in the catalog's order.
func (c Catalog) ByTags(tags ...string) []Skill { return c.having(Skill.Tags, tags) }

// ByCapabilities returns the skills that have any of the capabilities, in the catalog's order.
func (c Catalog) ByCapabilities(capabilities ...string) []Skill {
	return c.having(Skill.Capabilities, capabilities)
}

// having returns the skills for which of returns at least one of the texts in any.
func (c Catalog) having(of func(Skill) []string, any []string) (found []Skill) {
	for _, s := range c.Skills {
		has := of(s)
		if slices.ContainsFunc(any, func(want string) bool { return slices.Contains(has, want) }) {
			found = append(found, s)
		}
	}
	return found
}

// Tags returns metadata.tags, such as "tender,danish". A YAML list is read as well.
func (s Skill) Tags() []string { return splitList(s.Metadata["tags"]) }

// Capabilities returns metadata.capabilities, written as Tags are.
func (s Skill) Capabilities() []string { return splitList(s.Metadata["capabilities"]) }

// splitList splits "a, b" and "[a, b]" into its items.
func splitList(text string) (items []string) {
	for _, item := range strings.Split(strings.Trim(strings.TrimSpace(text), "[]"), ",") {
		if item = strings.Trim(item, "\"' \t\n"); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// sortedKeys returns the keys of m in a fixed order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
