package config

import (
	"fmt"
	"path"
	"slices"

	"gopkg.in/yaml.v3"

	"symbio/internal/security/lazyregexp"
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

// SkillRegistry names a node whose shared skills this node fetches, and says
// which of them count as trusted. That a person writes it is the trust: nothing
// that another node sends adds to it. The zero value is no registry.
type SkillRegistry struct {
	Node string `yaml:"node"`
	// Key is the id of the node, which is made from its public key.
	Key string `yaml:"key"`
	// Trust are patterns of names of skills that agents may use without another
	// question; the others are fetched and wait for one.
	Trust []string `yaml:"trust"`
	// Grants are the rules that trusted skills get if they ask for them.
	Grants []string `yaml:"grants"`
}

// Trusts reports whether a pattern of Trust matches the name of a skill.
func (r SkillRegistry) Trusts(name string) bool {
	return slices.ContainsFunc(r.Trust, func(p string) bool { ok, err := path.Match(p, name); return ok && err == nil })
}

// nodeKey matches the id of a node.
var nodeKey = lazyregexp.New(`^[0-9a-f]{32}$`)

// check reports a registry without a node or a key, and invalid patterns.
func (r SkillRegistry) check(bad func(format string, args ...any)) {
	if used := r.Node != "" || r.Key != "" || len(r.Trust)+len(r.Grants) > 0; used && (r.Node == "" || !nodeKey().MatchString(r.Key)) {
		bad("skills.registry: write node, its name, and key, its id of 32 hex digits that symbio nodes shows")
	}
	for _, p := range r.Trust {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			bad("skills.registry.trust: %q is not a pattern for names of skills; write one such as team-*", p)
		}
	}
}
