package event

import (
	"encoding/json"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema returns the JSON schema of an event as symbio events --json prints it, for scripts. Fields
// that it does not know are allowed: a newer node may have them.
func Schema() (*jsonschema.Schema, error) {
	options := &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{reflect.TypeFor[json.RawMessage](): {}}} // any JSON
	s, err := jsonschema.ForType(reflect.TypeFor[Event](), options)
	for _, p := range parts {
		if err != nil {
			return nil, err
		}
		var part *jsonschema.Schema
		if part, err = jsonschema.ForType(reflect.TypeOf(p.part), options); err == nil {
			for _, key := range part.PropertyOrder {
				if s.Properties[key] == nil {
					s.Properties[key], s.PropertyOrder = part.Properties[key], append(s.PropertyOrder, key)
				}
			}
		}
	}
	if err != nil {
		return nil, err
	}
	s.Schema, s.Title = "https://json-schema.org/draft/2020-12/schema", "An event of a node of symbio"
	open(s)
	return s, nil
}

// open removes the limits on unknown fields from s and all below it.
func open(s *jsonschema.Schema) {
	s.AdditionalProperties = nil
	for _, below := range s.Properties {
		open(below)
	}
	if s.Items != nil {
		open(s.Items)
	}
}
