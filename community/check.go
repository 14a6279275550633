package community

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"symbio/internal/security/visible"
)

// Limits of a member's description, here or on a peer. The numbers are far above what people need,
// and keep, with the default limits, the catalog of one peer below some 10 MB of memory whatever it announces.
const (
	maxPerceptions  = 256  // of one member
	maxName         = 64   // bytes
	maxLabel        = 128  // bytes of a name for people
	maxMetadata     = 64   // entries
	maxMetadataText = 1024 // bytes
	maxDescription  = 4 << 10
	maxSchema       = 16 << 10
)

// checkID returns an error unless id is 32 lower-case hex digits.
func checkID(id string) error {
	odd := func(r rune) bool { return !('0' <= r && r <= '9' || 'a' <= r && r <= 'f') }
	if len(id) != 32 || strings.ContainsFunc(id, odd) {
		return fmt.Errorf("id %q is not 32 hex digits", printable(id))
	}
	return nil
}

// checkName checks the name of a perception or capability: [A-Za-z0-9._-]{1,64}.
func checkName(kind, name string) error {
	odd := func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '_' || r == '-')
	}
	switch {
	case name == "":
		return fmt.Errorf("a %s has no name", kind)
	case len(name) > maxName:
		return fmt.Errorf("%s %q: a name has at most %d bytes", kind, printable(name), maxName)
	case strings.ContainsFunc(name, odd):
		return fmt.Errorf("%s %q: a name has letters, digits and . _ - only", kind, printable(name))
	}
	return nil
}

// checkProvided checks the name of a capability. It must not look like a perception.
func checkProvided(name string) error {
	if strings.HasPrefix(name, PerceptionPrefix) {
		return fmt.Errorf("capability %q: names beginning with %s are for signals", printable(name), PerceptionPrefix)
	}
	return checkName("capability", name)
}

// sortedNames returns the names sorted, or an error if a member cannot have them.
func sortedNames(kind string, names []string, most int) ([]string, error) {
	if len(names) > most {
		return nil, fmt.Errorf("%d of kind %s: at most %d are allowed", len(names), kind, most)
	}
	check := func(name string) error { return checkName(kind, name) }
	if kind == "capability" {
		check = checkProvided
	}
	for _, n := range names {
		if err := check(n); err != nil {
			return nil, err
		}
	}
	names = slices.Sorted(slices.Values(names))
	for i := 1; i < len(names); i++ {
		if names[i] == names[i-1] {
			return nil, fmt.Errorf("%s %q is there twice", kind, names[i])
		}
	}
	return names, nil
}

// checkLabel checks a name for people: not empty, short, and without invisible characters.
func checkLabel(kind, s string) error {
	switch {
	case s == "":
		return fmt.Errorf("no %s", kind)
	case len(s) > maxLabel:
		return fmt.Errorf("%s %q: at most %d bytes are allowed", kind, printable(s), maxLabel)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, visible.Hidden):
		return fmt.Errorf("%s %q: it has characters that cannot be shown", kind, printable(s))
	}
	return nil
}

// checkText is checkLabel for text that may be empty and have several lines.
func checkText(kind, s string, longest int) error {
	switch {
	case len(s) > longest:
		return fmt.Errorf("%s: %d bytes, at most %d are allowed", kind, len(s), longest)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return visible.Hidden(r) && r != '\n' && r != '\t' }):
		return fmt.Errorf("%s: it has characters that cannot be shown", kind)
	}
	return nil
}

// checkMetadata checks the size and the characters of all entries.
func checkMetadata(m map[string]string) error {
	if len(m) > maxMetadata {
		return fmt.Errorf("metadata: %d entries, at most %d are allowed", len(m), maxMetadata)
	}
	for k, v := range m {
		if err := checkLabel("metadata key", k); err != nil {
			return err
		}
		if checkText("", v, maxMetadataText) != nil {
			return checkText("metadata "+k, v, maxMetadataText)
		}
	}
	return nil
}

// checkCapability checks a capability, of this node or of a peer.
func checkCapability(p Capability) error {
	if err := checkProvided(p.Name); err != nil {
		return err
	}
	if err := checkText("description", p.Description, maxDescription); err != nil {
		return err
	}
	for _, schema := range []json.RawMessage{p.Input, p.Output} {
		if len(schema) > maxSchema {
			return fmt.Errorf("capability %s: a schema has %d bytes, at most %d are allowed", p.Name, len(schema), maxSchema)
		}
		if len(schema) > 0 && !json.Valid(schema) {
			return fmt.Errorf("capability %s: a schema is not JSON", p.Name)
		}
	}
	return nil
}

// printable returns s as it may be shown in a message or a log.
func printable(s string) string { return visible.Line(s, maxLabel) }
