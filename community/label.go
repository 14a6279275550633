package community

import (
	"fmt"
	"slices"
	"strings"

	"symbio/internal/security/lazyregexp"
	"symbio/internal/security/visible"
)

// Label is something that a node must have, to get a task or to be found: a key such as gpu with any value, or with
// the value that the node must have, such as arch=arm64. node=NAME is a node by its name or id, and
// model=NAME one that has a model whose name begins so.
type Label struct{ Key, Value string }

const (
	// MaxLabels bounds the labels that can be asked for, and those of a configuration.
	MaxLabels = 16
	// MaxLabelValue bounds a value, in bytes. Names of models are the longest.
	MaxLabelValue = 128
)

var keyPattern = lazyregexp.New(`^[a-z][a-z0-9._-]{0,62}$`)

// ParseLabels reads labels that are asked for. The error names the one that is none.
func ParseLabels(texts []string) (all []Label, err error) {
	if len(texts) > MaxLabels {
		return nil, fmt.Errorf("%d labels; at most %d can be asked for", len(texts), MaxLabels)
	}
	for _, text := range texts {
		key, value, hasValue := strings.Cut(text, "=")
		if err := CheckLabel(key, value); err != nil || hasValue && value == "" {
			return nil, fmt.Errorf("%q is no label: write one as gpu, arch=arm64, model=NAME or node=NAME", visible.Prefix(text, MaxLabelValue))
		}
		all = append(all, Label{key, value})
	}
	return all, nil
}

// CheckLabel returns an error unless a node can have the label. The value may be empty.
func CheckLabel(key, value string) error {
	if !keyPattern().MatchString(key) || len(value) > MaxLabelValue || visible.Line(value, MaxLabelValue) != value {
		return fmt.Errorf("%q: %q is no label: keys are lower-case letters, digits, dots and hyphens, values are at most %d printable characters", key, value, MaxLabelValue)
	}
	return nil
}

// String returns the label as ParseLabels reads it.
func (l Label) String() string {
	if l.Value == "" {
		return l.Key
	}
	return l.Key + "=" + l.Value
}

// fits reports whether a node has the label.
func (l Label) fits(m Member) bool {
	value := m.Metadata[l.Key]
	switch {
	case l.Key == "node":
		return visible.IsNamed(l.Value, m.Name, string(m.ID))
	case l.Key == "model" && l.Value != "":
		return slices.ContainsFunc(strings.Split(value, ","), func(name string) bool {
			_, bare, _ := strings.Cut(name, ":") // without the provider
			return strings.HasPrefix(name, l.Value) || strings.HasPrefix(bare, l.Value)
		})
	}
	return value != "" && (l.Value == "" || l.Value == value)
}

// HasLabels reports whether the member that stands for a node has all labels. They are what the node says of itself: a hint for
// a choice, no proof.
func (m Member) HasLabels(where []Label) bool {
	return !slices.ContainsFunc(where, func(l Label) bool { return !l.fits(m) })
}

// NodesWith returns the nodes with all labels whose members are among all. This node is in its Catalog, others in Members.
func NodesWith(where []Label, all ...Member) map[NodeID]bool {
	nodes := map[NodeID]bool{}
	for _, m := range all {
		if m.ID == MemberID(m.Node) && m.HasLabels(where) {
			nodes[m.Node] = true
		}
	}
	return nodes
}
