package tool

import (
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"symbio/agent/llm"
	"symbio/security/permission"
)

// Spec describes a tool that New makes.
type Spec struct {
	Name        string
	Description string
	// Enums are the values an argument may have, by the argument's name. They are lower case.
	Enums map[string][]string
	// Holds and Keeps are those of each Invocation.
	Holds func(context.Context) error
	Keeps func(context.Context, *permission.Denied) bool
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
	return NewKind[A](spec).New(run)
}

// Kind is a tool of which each agent has one of its own. What is the same for all, the schema above all, is worked out
// once, with the first; it is most of what a tool costs. A Kind may be used by many goroutines.
type Kind[A any] struct{ shape func() *shape }

// NewKind returns a Kind. What makes New panic makes the Kind's New do so.
func NewKind[A any](spec Spec) Kind[A] {
	return Kind[A]{sync.OnceValue(func() *shape { return newShape(spec, reflect.TypeFor[A]()) })}
}

// New makes a tool of the kind; see New.
func (k Kind[A]) New(run func(ctx context.Context, args A) Result) Tool {
	return &structTool[A]{k.shape(), run}
}

// shape is what is known of a tool's arguments.
type shape struct {
	spec     Spec
	schema   *jsonschema.Schema
	plain    bool // check needs no more than types and names
	resolved *jsonschema.Resolved
	text     json.RawMessage // not to be written to
	fields   map[string]int  // see fieldsOf
}

func newShape(spec Spec, of reflect.Type) *shape {
	if of.Kind() != reflect.Struct {
		panic(fmt.Sprintf("tool %s: its arguments are no struct", spec.Name))
	}
	schema, err := jsonschema.ForType(of, &jsonschema.ForOptions{})
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
	return &shape{spec: spec, schema: schema, plain: plain(schema), resolved: resolved, text: text, fields: fieldsOf(of)}
}

type structTool[A any] struct {
	*shape
	run func(context.Context, A) Result
}

func (t *structTool[A]) Spec() llm.ToolSpec {
	return llm.ToolSpec{Name: t.spec.Name, Description: t.spec.Description, Schema: t.text}
}

func (t *structTool[A]) Decode(raw json.RawMessage) (Invocation, error) {
	args, err := DecodeArgs(raw)
	if err != nil {
		return Invocation{}, err
	}
	if err := t.check(args); err != nil {
		return Invocation{}, err
	}
	// The struct is made from the very value that the guard sees, not from the text again.
	var typed A
	if err := t.fill(reflect.ValueOf(&typed), args); err != nil {
		return Invocation{}, fmt.Errorf("the arguments: %w", err)
	}
	return Invocation{
		Args:  args,
		Run:   func(ctx context.Context) Result { return t.run(ctx, typed) },
		Holds: t.spec.Holds,
		Keeps: t.spec.Keeps,
		Alone: t.spec.Alone,
	}, nil
}

// fill writes the arguments into the struct: texts, numbers and booleans as they are, and what is made of more by way of
// encoding/json.
func (t *shape) fill(to reflect.Value, args map[string]any) error {
	var rest map[string]any
	for name, v := range args {
		if i, ok := t.fields[name]; ok && setField(to.Elem().Field(i), v) {
			continue
		}
		if rest == nil {
			rest = map[string]any{}
		}
		rest[name] = v
	}
	if rest == nil {
		return nil
	}
	same, err := json.Marshal(rest)
	if err != nil {
		return err
	}
	return json.Unmarshal(same, to.Interface())
}

// setField writes a decoded value into a field of just its type; false leaves it to encoding/json.
func setField(field reflect.Value, v any) bool {
	switch v := v.(type) {
	case string:
		if field.Kind() == reflect.String {
			field.SetString(v)
			return true
		}
	case bool:
		if field.Kind() == reflect.Bool {
			field.SetBool(v)
			return true
		}
	case int64:
		if field.CanInt() && !field.OverflowInt(v) {
			field.SetInt(v)
			return true
		}
	}
	return false
}

// fieldsOf are the fields of a struct that encoding/json fills without more than their kind, by their names there.
func fieldsOf(t reflect.Type) map[string]int {
	byText := reflect.TypeFor[encoding.TextUnmarshaler]()
	byJSON := reflect.TypeFor[json.Unmarshaler]()
	fields := map[string]int{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if p := reflect.PointerTo(f.Type); f.Anonymous || !f.IsExported() || strings.Contains(options, "string") || p.Implements(byText) || p.Implements(byJSON) {
			continue
		}
		if name == "" {
			name = f.Name
		}
		fields[name] = i
	}
	return fields
}

// plain says of an object's schema that it asks nothing of its values but a type, which check looks at itself.
func plain(s *jsonschema.Schema) bool {
	for _, p := range s.Properties {
		switch p.Type {
		case "string", "boolean", "integer", "number":
		default:
			return false
		}
		if !reflect.DeepEqual(p, &jsonschema.Schema{Type: p.Type, Description: p.Description, Enum: p.Enum}) {
			return false
		}
	}
	return true
}

// check holds the arguments against the schema, with errors that say how to mend them. A null for an
// argument that may be left out is as if it were.
func (t *shape) check(args map[string]any) error {
	for name, v := range args {
		if v == nil && t.schema.Properties[name] != nil && !slices.Contains(t.schema.Required, name) {
			delete(args, name)
		}
	}
	names := make([]string, 0, 16)
	for name := range args {
		names = append(names, name)
	}
	slices.Sort(names) // of several errors it is always the same
	for _, name := range names {
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
func (t *shape) arguments() string {
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
