package openai

import (
	"encoding/json"
	"maps"
	"slices"
)

// strictKeywords are the keywords of JSON Schema that OpenAI's strict mode takes, and strictFormats the
// formats of strings. A schema with another one would be refused with the whole request.
var (
	strictKeywords = []string{"type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref", "$defs", "definitions",
		"title", "description", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems"}
	strictFormats = []any{"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)

// maxStrictDepth is how deep a strict schema may be nested.
const maxStrictDepth = 10

// strict reports whether OpenAI can enforce a schema: it is of an object, and every object in it requires
// all its properties and forbids others. With strict set, OpenAI refuses all other schemas. Text that is
// no JSON is not strict.
func strict(schema json.RawMessage) bool {
	var s map[string]any
	return json.Unmarshal(schema, &s) == nil && s["type"] == "object" && strictAt(s, maxStrictDepth)
}

// strictAt is strict for a schema inside another, with at most depth levels below.
func strictAt(v any, depth int) bool {
	s, ok := v.(map[string]any)
	if !ok || depth == 0 || !isClosed(s) {
		return false
	}
	for keyword := range s {
		if !slices.Contains(strictKeywords, keyword) {
			return false
		}
	}
	return !slices.ContainsFunc(subschemas(s), func(one any) bool { return !strictAt(one, depth-1) })
}

// isClosed reports whether a schema says what its values are: if objects, then with all their properties and
// no others.
func isClosed(s map[string]any) bool {
	properties, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	types, _ := s["type"].([]any)
	if s["type"] == "object" || slices.Contains(types, any("object")) || properties != nil {
		return s["additionalProperties"] == false && len(required) == len(properties)
	}
	if format, ok := s["format"]; ok && !slices.Contains(strictFormats, format) {
		return false
	}
	return slices.ContainsFunc([]string{"type", "anyOf", "$ref", "enum", "const"}, func(keyword string) bool { return s[keyword] != nil })
}

// subschemas returns the schemas in a schema.
func subschemas(s map[string]any) (list []any) {
	if items, ok := s["items"]; ok {
		list = append(list, items)
	}
	if any, ok := s["anyOf"].([]any); ok {
		list = append(list, any...)
	}
	for _, keyword := range []string{"properties", "$defs", "definitions"} {
		named, _ := s[keyword].(map[string]any)
		list = slices.AppendSeq(list, maps.Values(named))
	}
	return list
}
