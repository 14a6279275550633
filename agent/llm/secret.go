package llm

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// hidden is what a Secret shows instead of itself.
const hidden = "[secret]"

// Secret is a key. It never prints: not with any verb of fmt, not in JSON or YAML, not in a log, not
// as a field of something that is printed. The zero value is no key.
type Secret struct {
	// A pointer, because fmt does not follow pointers inside a struct and does not call methods on
	// unexported fields: a string here would show when a struct that holds a Secret is printed.
	value *string
}

// NewSecret returns the key in s without surrounding white space, which files and shells often add.
func NewSecret(s string) Secret {
	if s = strings.TrimSpace(s); s == "" {
		return Secret{}
	}
	return Secret{&s}
}

// Reveal returns the key. Only the code that sends or removes it may call Reveal.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// Empty reports whether there is no key.
func (s Secret) Empty() bool { return s.value == nil }

// shortest is the shortest key that Scrub replaces, in bytes. People give local servers keys such as "k", which are in
// ordinary words, and no secrets.
const shortest = 8

// Scrub returns text with every occurrence of the key replaced, unless the key has less than 8 bytes.
func (s Secret) Scrub(text string) string {
	if s.value == nil || len(*s.value) < shortest {
		return text
	}
	return strings.ReplaceAll(text, *s.value, hidden)
}

// String returns a placeholder, or nothing when there is no key.
func (s Secret) String() string {
	if s.value == nil {
		return ""
	}
	return hidden
}

// Format prints the placeholder for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText returns the placeholder.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue returns the placeholder.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
