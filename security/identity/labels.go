package identity

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Labels are what the authority says of a node, beside its role: KEY=VALUE, sorted, separated by commas; "" = none. They are
// in the node's certificate, so they prove what they say, other than the labels in a node's own description.
type Labels string

const (
	// maxLabels is how many labels a node has at most.
	maxLabels = 16
	// maxLabel is the longest label, in bytes: what an organizational unit takes (RFC 5280, appendix A.1).
	maxLabel = 64
)

// ErrLabel means that a text cannot be a label of a certificate.
var ErrLabel = errors.New("not a label")

// ParseLabels returns the labels that texts are, each KEY=VALUE. It returns ErrLabel if one has another form, a key is there
// twice, or there are over 16.
func ParseLabels(texts []string) (Labels, error) {
	if len(texts) > maxLabels {
		return "", fmt.Errorf("%d labels: %w: a node has at most %d", len(texts), ErrLabel, maxLabels)
	}
	sorted := slices.Sorted(slices.Values(texts))
	for i, text := range sorted {
		key, value, _ := strings.Cut(text, "=")
		if len(text) > maxLabel || key == "" || value == "" || strings.ContainsFunc(key, notInKey) || strings.ContainsFunc(value, notInValue) {
			return "", fmt.Errorf("%.70q: %w: want KEY=VALUE of at most %d bytes: letters, digits, dots, hyphens and underscores, in the key lower-case ones",
				text, ErrLabel, maxLabel)
		}
		if i > 0 && strings.HasPrefix(sorted[i-1], key+"=") {
			return "", fmt.Errorf("%q: %w: %s is there already", text, ErrLabel, key)
		}
	}
	return Labels(joinLabels(sorted)), nil
}

func joinLabels(sorted []string) string { return strings.Join(sorted, ",") }

// notInKey reports whether a key cannot have c, notInValue whether a value cannot.
func notInKey(c rune) bool {
	return (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("._-", c)
}
func notInValue(c rune) bool { return (c < 'A' || c > 'Z') && notInKey(c) }

// List returns the labels, each KEY=VALUE.
func (l Labels) List() []string {
	return strings.FieldsFunc(string(l), func(c rune) bool { return c == ',' })
}

// Map returns the values by their keys; nil if there are none.
func (l Labels) Map() map[string]string {
	if l == "" {
		return nil
	}
	all := map[string]string{}
	for _, one := range l.List() {
		key, value, _ := strings.Cut(one, "=")
		all[key] = value
	}
	return all
}
