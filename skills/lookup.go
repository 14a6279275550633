package skills

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
)

// Duplicates says what a bare name means that several skills have. The zero value is DuplicatesAmbiguous.
type Duplicates string

// What a name of several skills may mean (skills.md C8).
const (
	DuplicatesAmbiguous  Duplicates = "ambiguous"  // nothing: choose one by its path
	DuplicatesPrecedence Duplicates = "precedence" // the first by scope, then of the deepest directory, then by path
)

// Resolve finds a skill as Find does, and settles a name that several have as d says.
func (c Catalog) Resolve(nameOrPath string, d Duplicates) (Skill, error) {
	s, err := c.Find(nameOrPath)
	if d != DuplicatesPrecedence || !errors.Is(err, ErrAmbiguous) {
		return s, err
	}
	return c.first(nameOrPath), nil
}

// first is the skill that a name means by precedence.
func (c Catalog) first(name string) Skill {
	var named []Skill
	for _, s := range c.Skills {
		if s.Name == name {
			named = append(named, s)
		}
	}
	return slices.MinFunc(named, func(a, b Skill) int {
		return cmp.Or(cmp.Compare(a.Scope.rank(), b.Scope.rank()), cmp.Compare(depth(b.Dir), depth(a.Dir)), cmp.Compare(a.Path, b.Path))
	})
}

func depth(path string) int { return strings.Count(path, "/") + strings.Count(path, `\`) }

// Get returns the skill of that name; of several the first by precedence.
func (c Catalog) Get(name string) (Skill, bool) {
	s, err := c.Resolve(name, DuplicatesPrecedence)
	return s, err == nil
}

// Contains reports whether a skill has that name or path.
func (c Catalog) Contains(nameOrPath string) bool {
	_, ok := c.Get(nameOrPath)
	return ok
}

// Names are the names of the skills, each once, in order.
func (c Catalog) Names() []string {
	names := make([]string, 0, len(c.Skills))
	for _, s := range c.Skills {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Count is how many skills there are, those of one name counted each.
func (c Catalog) Count() int { return len(c.Skills) }

// ByTags returns the skills that have any of the tags, in the catalog's order.
func (c Catalog) ByTags(tags ...string) []Skill { return c.having(Skill.Tags, tags) }

// ByCapabilities returns the skills that have any of the capabilities, in the catalog's order.
func (c Catalog) ByCapabilities(capabilities ...string) []Skill {
	return c.having(Skill.Capabilities, capabilities)
}

func (c Catalog) having(of func(Skill) []string, any []string) (found []Skill) {
	for _, s := range c.Skills {
		has := of(s)
		if slices.ContainsFunc(any, func(want string) bool { return slices.Contains(has, want) }) {
			found = append(found, s)
		}
	}
	return found
}

// Tags are those of metadata.tags, as in "tender,danish"; a YAML list does too.
func (s Skill) Tags() []string { return listed(s.Metadata["tags"]) }

// Capabilities are those of metadata.capabilities, written as tags are.
func (s Skill) Capabilities() []string { return listed(s.Metadata["capabilities"]) }

// Version is metadata.version, else a version beside the other fields; "" = the skill says none.
func (s Skill) Version() string { return cmp.Or(s.Metadata["version"], s.Extra["version"]) }

// listed parts "a, b" and "[a, b]".
func listed(text string) (items []string) {
	for _, item := range strings.Split(strings.Trim(strings.TrimSpace(text), "[]"), ",") {
		if item = strings.Trim(item, "\"' \t\n"); item != "" {
			items = append(items, item)
		}
	}
	return items
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
