package format

import (
	"fmt"
	"maps"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema returns the JSON schema of the front matter of a SKILL.md at level Standard with names of
// a-z, for editors. Fields that the specification does not define are allowed, as by Parse. It
// cannot compare the name with the directory, and it leaves rules of allowed-tools to Parse. It
// returns an error if a known field has no schema.
func Schema() (*jsonschema.Schema, error) {
	scalar := func(text string) *jsonschema.Schema {
		return &jsonschema.Schema{Description: text, Types: []string{"string", "number", "boolean", "null"}}
	}
	flag := func(text string) *jsonschema.Schema { return &jsonschema.Schema{Description: text, Type: "boolean"} }
	text := &jsonschema.Schema{Type: "string"}
	s := &jsonschema.Schema{
		Schema: "https://json-schema.org/draft/2020-12/schema", Title: "The front matter of a SKILL.md", Type: "object", Required: []string{"name", "description"},
		PropertyOrder: []string{"name", "description", "license", "compatibility", "metadata", toolsField},
		Properties: map[string]*jsonschema.Schema{
			"name": {Description: "The name, which is that of the directory.", Types: []string{"string", "number"}, Pattern: `^\s*[a-z0-9]+(-[a-z0-9]+)*\s*$`,
				MaxLength: jsonschema.Ptr(maxName)},
			"description": {Description: "What the skill does and when to use it. Models choose by it.", Type: "string", Pattern: `\S`, MaxLength: jsonschema.Ptr(maxDescription)},
			"license":     scalar("The license, as a name or a file."),
			"compatibility": {Description: "The environment that the skill needs.", Types: []string{"string", "null"},
				MinLength: jsonschema.Ptr(1), MaxLength: jsonschema.Ptr(maxCompat)},
			"metadata":                 {Description: "More about the skill, as texts by their names.", Types: []string{"object", "null"}},
			toolsField:                 {Description: "Rules that the skill asks for, separated by spaces.", AnyOf: []*jsonschema.Schema{scalar(""), {Type: "array", Items: text}}},
			"disable-model-invocation": flag("Only a person can start the skill."),
			"user-invocable":           flag("Whether a person can start the skill."),
			"user-invokable":           flag("An older spelling of user-invocable."),
			// A fault in these is a warning.
			triggersField: {Description: "Which tasks the skill is for: lists of keywords, verbs and patterns."},
			autoField:     {Description: "Whether a trusted skill is activated when its triggers match."},
			toolsetsField: {Description: "Named sets of tools that the skill asks for."},
			dependsField:  {Description: "Skills that are activated together with it, as NAME or NAME with a condition for its version."},
		},
	}
	known := maps.Clone(specified)
	maps.Copy(known, flagFields)
	maps.Copy(known, plannedFields)
	for key := range known {
		if s.Properties[key] == nil {
			return nil, fmt.Errorf("the field %s of a SKILL.md has no schema", key)
		}
	}
	return s, nil
}
