package config

import (
	"fmt"

	"gopkg.in/yaml.v3"
)

// Share is true for all, or a list of names. The zero Share is nothing.
type Share struct {
	All   bool
	Names []string
}

// Any reports whether anything is shared.
func (s Share) Any() bool { return s.All || len(s.Names) > 0 }

// UnmarshalYAML reads true, false or a list of names.
func (s *Share) UnmarshalYAML(n *yaml.Node) error {
	*s = Share{}
	if n.Kind == yaml.SequenceNode {
		return n.Decode(&s.Names)
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!bool" {
		return n.Decode(&s.All)
	}
	return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: skills.share is true, false or a list of skills' names", n.Line)}}
}

// MarshalYAML writes what UnmarshalYAML reads.
func (s Share) MarshalYAML() (any, error) {
	if s.Names != nil {
		return s.Names, nil
	}
	return s.All, nil
}
