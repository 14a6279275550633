package format

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Validate checks a manifest that was put together by a program, as Parse checks one that it reads; dir is
// as there. It reports what Parse would, without lines, since there is no file.
func Validate(m Manifest, dir string, policy Policy) []Diagnostic {
	var fields []field
	add := func(key, value string) {
		if value != "" {
			fields = append(fields, field{key: key, value: text(value)})
		}
	}
	add("name", m.Name)
	add("description", m.Description)
	add("license", m.License)
	add("compatibility", m.Compatibility)
	if len(m.Metadata) > 0 {
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, k := range slices.Sorted(maps.Keys(m.Metadata)) {
			n.Content = append(n.Content, text(k), text(m.Metadata[k]))
		}
		fields = append(fields, field{key: "metadata", value: n})
	}
	add(toolsField, strings.Join(m.AllowedTools, " "))
	for _, k := range slices.Sorted(maps.Keys(m.Extra)) {
		fields = append(fields, field{key: k, value: text(m.Extra[k])})
	}
	c := checker{policy: policy, dir: dir, fields: make(map[string]field, len(fields))}
	for _, f := range fields {
		c.fields[f.key] = f
	}
	c.check(fields)
	return c.diags
}

// text is a node that holds s and nothing that YAML could make of it.
func text(s string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: s}
}
