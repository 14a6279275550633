package tool

import (
	"encoding/json"
	"strings"

	"symbio/agent/llm"
	"symbio/internal/security/visible"
)

// The lengths of brief descriptions, in bytes: one sentence each.
const (
	maxBriefTool  = 120
	maxBriefField = 50
)

// briefSpecs are descriptions and their brief forms.
type briefSpecs struct{ whole, brief []llm.ToolSpec }

// describeBriefly returns the descriptions in few words. It returns the same slice as long as whole
// is the same, so that requests stay cacheable.
func (c *catalog) describeBriefly(whole []llm.ToolSpec) []llm.ToolSpec {
	if len(whole) == 0 {
		return nil
	}
	if last := c.brief.Load(); last != nil && len(last.whole) == len(whole) && &last.whole[0] == &whole[0] {
		return last.brief
	}
	b := &briefSpecs{whole: whole}
	for _, s := range whole {
		if s.Name != searchName { // its description has the names that it finds
			s.Description = briefText(s.Description, maxBriefTool)
		}
		s.Schema = briefSchema(s.Schema)
		b.brief = append(b.brief, s)
	}
	c.brief.Store(b)
	return b.brief
}

// briefText returns the first sentence of a text, cut to max bytes.
func briefText(text string, max int) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	if i := strings.Index(text, ". "); i >= 0 {
		text = text[:i+1]
	}
	return visible.Truncate(text, max)
}

// briefSchema shortens the descriptions in a JSON schema. A schema that cannot be read stays as it is.
func briefSchema(schema json.RawMessage) json.RawMessage {
	var doc any
	if json.Unmarshal(schema, &doc) != nil {
		return schema
	}
	shortenDescriptions(doc)
	short, err := json.Marshal(doc)
	if err != nil {
		return schema
	}
	return short
}

// shortenDescriptions shortens the descriptions of a decoded schema in place. A property may be
// called description, too; its value is then no text.
func shortenDescriptions(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, member := range v {
			if text, is := member.(string); is && k == "description" {
				v[k] = briefText(text, maxBriefField)
			} else {
				shortenDescriptions(member)
			}
		}
	case []any:
		for _, member := range v {
			shortenDescriptions(member)
		}
	}
}
