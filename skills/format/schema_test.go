package format_test

import (
	"slices"
	"testing"

	"gopkg.in/yaml.v3"

	"symbio/skills/format"
)

// notInSchema are diagnostics about the text of YAML, of which a schema sees the values only.
var notInSchema = map[format.Code]bool{format.CodeYAML: true, format.CodeYAMLFeature: true, format.CodeEncoding: true}

// The schema accepts what Parse accepts at level standard, and refuses what it refuses, as far as YAML can be read.
func TestSchemaAgreesWithParseOnEdges(t *testing.T) {
	s, err := format.Schema()
	if err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, e := range edges {
		head, _, err := format.SplitFrontMatter([]byte(e.content))
		var value any
		if err != nil || yaml.Unmarshal(head, &value) != nil {
			continue
		}
		m, _, diags := format.Parse([]byte(e.content), e.dir, format.Policy{Level: format.Standard})
		if m.Name != "" {
			_, _, diags = format.Parse([]byte(e.content), m.Name, format.Policy{Level: format.Standard})
		}
		if slices.ContainsFunc(diags, func(d format.Diagnostic) bool { return notInSchema[d.Code] }) {
			continue
		}
		compared++
		if err := resolved.Validate(value); (err == nil) == format.Failed(diags) {
			t.Errorf("%s: the schema says %v, Parse %v", e.id, err, diags)
		}
	}
	if compared < 30 {
		t.Errorf("only %d of %d edges were compared", compared, len(edges))
	}
}
