package config

import (
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"symbio/security/permission"
)

// dialect is the version of JSON Schema that all schemas are written in.
const dialect = "https://json-schema.org/draft/2020-12/schema"

// durationPattern matches what time.ParseDuration accepts and no key refuses:
// durations that are not negative.
const durationPattern = `^\+?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`

// Schema returns the JSON schema of the file format, for editors. It is made
// from Reference, so it has the keys, types, texts and words of this version. It
// accepts every file that Parse accepts, as far as one key decides; rules about
// several keys, such as exactly one of exec and agent, are left to Parse.
func Schema() (*jsonschema.Schema, error) {
	keys, err := Reference()
	if err != nil {
		return nil, err
	}
	root := mappingSchema()
	root.Schema, root.Title = dialect, "symbio.yaml, the configuration of a node of symbio"
	// at has the mappings by the name of their keys' prefix.
	at := map[string]*jsonschema.Schema{"": root}
	for _, k := range keys {
		parent, name := "", k.Name
		if i := strings.LastIndexByte(k.Name, '.'); i >= 0 {
			parent, name = k.Name[:i], k.Name[i+1:]
		}
		s, err := k.schema()
		if err != nil {
			return nil, err
		}
		in := at[parent]
		in.Properties[name], in.PropertyOrder = s, append(in.PropertyOrder, name)
		at[k.Name], at[k.Name+"[]"], at[k.Name+".NAME"] = s, s.Items, s.AdditionalProperties
		if len(s.AnyOf) > 0 {
			at[k.Name] = s.AnyOf[1] // the sandbox, which is a word or a mapping
		}
	}
	// The sandbox and the budget of a capability have the same keys as the node's.
	for _, name := range []string{"sandbox", "budget"} {
		s := root.Properties["capabilities"].Items.Properties[name]
		*s = jsonschema.Schema{Ref: "#/properties/" + name, Description: s.Description}
	}
	return root, nil
}

// mappingSchema returns the schema of a mapping that has no keys yet. Unknown
// keys are refused, as by Parse.
func mappingSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}, AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}}
}

// schema returns the schema of the values of a key. An unknown name of a type is
// an error.
func (k Key) schema() (*jsonschema.Schema, error) {
	s, err := typeSchema(k.Type, k)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.Name, err)
	}
	s.Description = k.Text
	if k.Default != "" {
		s.Description += " Default: " + k.Default + "."
	}
	return s, nil
}

// typeSchema returns the schema of a type by its name in Key.Type. Words and
// limits of k hold for each value of a list or of a mapping of names.
func typeSchema(name string, k Key) (*jsonschema.Schema, error) {
	if of, ok := strings.CutPrefix(name, "list of "); ok {
		items, err := typeSchema(strings.TrimSuffix(of, "s"), k)
		return &jsonschema.Schema{Type: "array", Items: items}, err
	}
	if of, ok := strings.CutPrefix(name, "mapping of names to "); ok {
		values, err := typeSchema(strings.TrimSuffix(of, "s"), k)
		return &jsonschema.Schema{Type: "object", AdditionalProperties: values}, err
	}
	if one, list, ok := strings.Cut(name, " or "); ok {
		first, err := typeSchema(one, k)
		if err != nil {
			return nil, err
		}
		second, err := typeSchema(list, k)
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{first, second}}, err
	}
	return scalarSchema(name, k)
}

// scalarSchema is typeSchema for types without parts.
func scalarSchema(name string, k Key) (*jsonschema.Schema, error) {
	switch name {
	case "mapping":
		return mappingSchema(), nil
	case "boolean":
		return &jsonschema.Schema{Type: name}, nil
	case "integer", "number":
		s := &jsonschema.Schema{Type: name, Minimum: jsonschema.Ptr(0.0), Maximum: k.Most}
		if k.Above != nil {
			s.Minimum, s.ExclusiveMinimum = nil, k.Above
		}
		return s, nil
	case "duration":
		return &jsonschema.Schema{Type: "string", Pattern: durationPattern}, nil
	case "rule":
		return permission.RuleText{}.JSONSchema(), nil
	case "JSON schema":
		return &jsonschema.Schema{Types: []string{"object", "boolean"}}, nil
	case "string":
		if len(k.Values) == 0 { // YAML reads a number for a text as its text
			return &jsonschema.Schema{Types: []string{"string", "number"}}, nil
		}
		s := &jsonschema.Schema{Type: name}
		for _, v := range k.Values {
			s.Enum = append(s.Enum, v)
		}
		return s, nil
	}
	return nil, fmt.Errorf("no schema for the type %q", name)
}
