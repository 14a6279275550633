package definition

import (
	_ "embed"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"gopkg.in/yaml.v3"
)

// durationPattern matches the durations that are accepted: the ones of time.ParseDuration above 0.
const durationPattern = `^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)([0-9.]|ns|us|µs|μs|ms|s|m|h)*$`

// keyTexts is a mapping of the keys of front matter to what they mean.
//
//go:embed keys.yaml
var keyTexts []byte

// Schema returns the JSON schema of the front matter of a definition, for editors. It is made from
// the functions that Parse reads with. Whether tools, skills and models exist, and whether rules
// have the right syntax, is left to Parse. Unlike Parse, it wants a value for each key.
func Schema() (*jsonschema.Schema, error) {
	f := &parser{}
	s := mappingSchema(f.keys(new(Definition), new([]item)))
	s.Schema, s.Title, s.Required = "https://json-schema.org/draft/2020-12/schema", "The front matter of an agent of symbio", []string{"name"}
	s.Properties["name"] = &jsonschema.Schema{Type: "string", Pattern: namePattern().String(), MaxLength: jsonschema.Ptr(maxName)}
	s.Properties["accepts"].Items = &jsonschema.Schema{Type: "string", Pattern: perceptionName().String()}
	s.Properties["accepts"].UniqueItems = true
	for _, key := range ignoredKeys {
		s.Properties[key] = &jsonschema.Schema{}
	}
	texts := map[string]string{}
	if err := yaml.Unmarshal(keyTexts, texts); err != nil {
		return nil, fmt.Errorf("keys.yaml: %w", err)
	}
	for key, of := range s.Properties {
		if of.Description = texts[key]; of.Description == "" {
			return nil, fmt.Errorf("the key %s has no description", key)
		}
	}
	return s, nil
}

// mappingSchema returns the schema of a mapping with these keys alone.
func mappingSchema(keys map[string]field) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}, AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}}
	for name, f := range keys {
		s.Properties[name] = f.schema
	}
	s.PropertyOrder = slices.Sorted(maps.Keys(keys))
	return s
}

// anyOf returns the schema of values that one of the schemas describes.
func anyOf(schemas ...*jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: schemas}
}

// textSchema is the schema of a text, as which a number counts, too.
func textSchema() *jsonschema.Schema { return &jsonschema.Schema{Types: []string{"string", "number"}} }

func booleanSchema() *jsonschema.Schema { return &jsonschema.Schema{Type: "boolean"} }

func listSchema(items *jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "array", Items: items}
}

// wordSchema is the schema of one of the words.
func wordSchema(words ...string) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	for _, w := range words {
		s.Enum = append(s.Enum, w)
	}
	return s
}

// limitSchema is the schema of a field of budget.Limits.
func limitSchema(of reflect.Value) *jsonschema.Schema {
	switch {
	case of.Type() == reflect.TypeFor[time.Duration]():
		return &jsonschema.Schema{Type: "string", Pattern: durationPattern}
	case of.CanFloat():
		return &jsonschema.Schema{Type: "number", ExclusiveMinimum: jsonschema.Ptr(0.0)}
	}
	return &jsonschema.Schema{Type: "integer", Minimum: jsonschema.Ptr(1.0)}
}
