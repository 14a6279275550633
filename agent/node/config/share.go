package config

import (
	"fmt"

	"gopkg.in/yaml.v3"
)

// Share selects skills: all, those with the given names, or none. The zero
// value is none.
type Share struct {
	All   bool
	Names []string
}

// IsEnabled reports whether any skill is selected.
func (s Share) IsEnabled() bool { return s.All || len(s.Names) > 0 }

// UnmarshalYAML reads true, false or a list of names.
func (s *Share) UnmarshalYAML(n *yaml.Node) error {
	*s = Share{}
	if n.Kind == yaml.SequenceNode {
		return n.Decode(&s.Names)
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!bool" {
		return n.Decode(&s.All)
	}
	return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: skills.share: write true, false or a list of names of skills", n.Line)}}
}

// MarshalYAML writes the form that UnmarshalYAML reads.
func (s Share) MarshalYAML() (any, error) {
	if s.Names != nil {
		return s.Names, nil
	}
	return s.All, nil
}
