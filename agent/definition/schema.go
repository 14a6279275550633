package definition

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// durationPattern matches the durations that are accepted: those of time.ParseDuration above 0.
const durationPattern = `^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)([0-9.]|ns|us|µs|μs|ms|s|m|h)*$`

// keyTexts returns what the keys of front matter mean, for Schema.
func keyTexts() map[string]string {
	return map[string]string{
		"name":        "The name of the definition, which is that of its file without .md: up to 64 letters, digits and single hyphens.",
		"description": "What the agent is for. Models and people choose by it. Default: the first sentence of the instructions.",
		"model":       "The model, or several in order of preference. Default: the node's.",
		"accepts":     "The perceptions that the agent takes as tasks, in addition to its name. Default: task.",
		"tools":       `The tools, by name, as preset:NAME, or as mcp__SERVER__*. Default: all ("*").`,
		"skills":      "Skills that are active from the beginning.",
		"permissions": "Rules that restrict what the node's configuration allows.",
		"guardrail":   "Rules for each call of the agent and of its sub-agents, or the name of a preset.",
		"sandbox":     "What commands may do, less than what the node lets them do, or the name of a preset.",
		"budget":      "What one task may use, together with all sub-agents.",
		"max_turns":   "How many turns of the model one task may take. Default: 32.",
		"thinking":    "Whether the model thinks before it answers, or with how many tokens. Default: the model's own.",
		"effort":      "How much the model thinks. Default: the node's.",
		"keep":        "Whether agents that a person spawned live again when their node is started again.",
	}
}

// Schema returns the JSON schema of the front matter of a definition, for editors. It is made from
// the functions that Parse reads with. Whether tools, skills and models exist, and whether rules
// have the right syntax, is left to Parse. Unlike Parse, it wants a value for each key.
func Schema() (*jsonschema.Schema, error) {
	f := &parser{}
	s := mappingSchema(f.keys(new(Definition), new([]item)))
	s.Schema, s.Title, s.Required = "https://json-schema.org/draft/2020-12/schema", "The front matter of an agent of symbio", []string{"name"}
	s.Properties["name"] = &jsonschema.Schema{Type: "string", Pattern: namePattern.String(), MaxLength: jsonschema.Ptr(maxName)}
	s.Properties["accepts"].Items = &jsonschema.Schema{Type: "string", Pattern: perceptionName.String()}
	s.Properties["accepts"].UniqueItems = true
	texts := keyTexts()
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
