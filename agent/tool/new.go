package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"symbio/agent/llm"
)

// Spec describes a tool that New makes.
type Spec struct {
	Name        string
	Description string
	// Enums are the values an argument may have, by the argument's name. They are lower case.
	Enums map[string][]string
	// Holds is that of each Invocation.
	Holds func(context.Context) error
	// Alone says that a call may not run beside others of its turn.
	Alone bool
}

// New makes a tool from a struct: its JSON schema has a property for each exported field, named by
// its json tag and described by its jsonschema tag; fields with omitempty may be left out. The
// arguments are read once (see Tool.Decode); run gets what the guard saw, as an A.
//
// New panics when A is no struct or has no schema, or when an enum is for no property: a mistake in
// the program, found at the first start.
func New[A any](spec Spec, run func(ctx context.Context, args A) Result) Tool {
	if reflect.TypeFor[A]().Kind() != reflect.Struct {
		panic(fmt.Sprintf("tool %s: its arguments are no struct", spec.Name))
	}
	schema, err := jsonschema.For[A](nil)
	if err != nil {
		panic(fmt.Sprintf("tool %s: the schema of its arguments: %v", spec.Name, err))
	}
	for name, values := range spec.Enums {
		if schema.Properties[name] == nil {
			panic(fmt.Sprintf("tool %s: an enum for %s, which is no argument", spec.Name, name))
		}
		for _, v := range values {
			schema.Properties[name].Enum = append(schema.Properties[name].Enum, v)
		}
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		panic(fmt.Sprintf("tool %s: the schema of its arguments: %v", spec.Name, err))
	}
	text, err := json.Marshal(schema)
	if err != nil {
		panic(fmt.Sprintf("tool %s: the schema of its arguments: %v", spec.Name, err))
	}
	return &typed[A]{spec: spec, schema: schema, resolved: resolved, plain: plain(schema), text: text, run: run}
}

// plain reports whether check alone holds a value to the schema of a struct: its properties are scalars, about which
// the schema says no more than their type, and what Spec.Enums says.
func plain(s *jsonschema.Schema) bool {
	for _, p := range s.Properties {
		bare := *p
		bare.Description, bare.Enum = "", nil
		if !slices.Contains([]string{"string", "integer", "number", "boolean"}, p.Type) || !reflect.DeepEqual(bare, jsonschema.Schema{Type: p.Type}) {
			return false
		}
	}
	return true
}

type typed[A any] struct {
	spec     Spec
	schema   *jsonschema.Schema
	resolved *jsonschema.Resolved
	plain    bool // see plain
	text     json.RawMessage
	run      func(context.Context, A) Result
}

func (t *typed[A]) Spec() llm.ToolSpec {
	return llm.ToolSpec{Name: t.spec.Name, Description: t.spec.Description, Schema: t.text}
}

func (t *typed[A]) Decode(raw json.RawMessage) (Invocation, error) {
	args, err := DecodeArgs(raw)
	if err != nil {
		return Invocation{}, err
	}
	if err := t.check(args); err != nil {
		return Invocation{}, err
	}
	// The struct is made from the very value that the guard sees, not from the text again.
	same, err := json.Marshal(args)
	if err != nil {
		return Invocation{}, fmt.Errorf("the arguments: %w", err)
	}
	var typed A
	if err := json.Unmarshal(same, &typed); err != nil {
		return Invocation{}, fmt.Errorf("the arguments: %w", err)
	}
	return Invocation{
		Args:  args,
		Run:   func(ctx context.Context) Result { return t.run(ctx, typed) },
		Holds: t.spec.Holds,
		Alone: t.spec.Alone,
	}, nil
}

// check holds the arguments against the schema, with errors that say how to mend them. A null for an
// argument that may be left out is as if it were.
func (t *typed[A]) check(args map[string]any) error {
	for name, v := range args {
		if v == nil && t.schema.Properties[name] != nil && !slices.Contains(t.schema.Required, name) {
			delete(args, name)
		}
	}
	for _, name := range sortedNames(args) {
		property := t.schema.Properties[name]
		if property == nil {
			return fmt.Errorf("there is no argument %q; the arguments are %s", name, t.arguments())
		}
		if values := t.spec.Enums[name]; values != nil && !slices.Contains(values, fmt.Sprint(args[name])) {
			return fmt.Errorf("%s has to be one of %s", name, strings.Join(values, ", "))
		}
		if got := jsonType(args[name]); property.Type != "" && got != property.Type && !(got == "integer" && property.Type == "number") {
			return fmt.Errorf("%s has to be of type %s, not %s", name, property.Type, got)
		}
	}
	for _, name := range t.schema.Required {
		if _, ok := args[name]; !ok {
			return fmt.Errorf("the argument %q is missing; the arguments are %s", name, t.arguments())
		}
	}
	if t.plain {
		return nil
	}
	if err := t.resolved.Validate(args); err != nil {
		return fmt.Errorf("the arguments do not fit the schema: %w", err)
	}
	return nil
}

// arguments lists the arguments in the order of the struct, for the model.
func (t *typed[A]) arguments() string {
	if len(t.schema.Properties) == 0 {
		return "none"
	}
	var names []string
	for _, name := range t.schema.PropertyOrder {
		if !slices.Contains(t.schema.Required, name) {
			name += " (optional)"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// jsonType names the type of a decoded value as a schema does.
func jsonType(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case int64:
		return "integer"
	case float64:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "object"
}

func sortedNames(m map[string]any) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
