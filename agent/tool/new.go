package tool

import (
	"cmp"
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

// Spec describes a tool that is made by New.
type Spec struct {
	Name        string
	Description string
	// Enums are the allowed values of arguments, by the argument's name.
	Enums map[string][]string
	// Holds, Keeps and HasBox are copied to each Invocation.
	Holds  func(context.Context) error
	Keeps  func(context.Context, *permission.FileDenials) bool
	HasBox func(context.Context, permission.Box) bool
	// Alone and ReadOnly are copied to each Invocation.
	Alone    bool
	ReadOnly bool
}

// New returns a tool whose arguments are the struct A. Its JSON schema has a property for each
// exported field, named by the json tag and described by the jsonschema tag. Fields with omitempty
// are optional. The arguments are decoded once (see Tool.Decode), and run gets the value that the
// guard judged.
//
// New panics if A is not a struct, if no schema can be made of it, or if an enum names no property.
// These are programming errors, found at the first start.
func New[A any](spec Spec, run func(ctx context.Context, args A) Result) Tool {
	return NewKind[A](spec).New(run)
}

// NewPreviewed is New for a tool that changes a file; see Invocation.Preview.
func NewPreviewed[A any](spec Spec, run func(ctx context.Context, args A) Result, preview func(ctx context.Context, args A) FileDiff) Tool {
	return &structTool[A]{newShape(spec, reflect.TypeFor[A]()), run, preview}
}

// Kind makes tools that differ only in their function, such as one for each agent. The schema,
// which is most of the cost of a tool, is computed once, when the first tool is made. A Kind may be
// used by many goroutines.
type Kind[A any] struct{ shape func() *shape }

// NewKind returns a Kind. It does not panic; Kind.New panics where New would.
func NewKind[A any](spec Spec) Kind[A] {
	return Kind[A]{sync.OnceValue(func() *shape { return newShape(spec, reflect.TypeFor[A]()) })}
}

// New returns a tool of the kind; see the function New.
func (k Kind[A]) New(run func(ctx context.Context, args A) Result) Tool {
	return &structTool[A]{k.shape(), run, nil}
}

// shape is the schema of a tool's arguments and what is derived from it. It is immutable.
type shape struct {
	spec     Spec
	schema   *jsonschema.Schema
	plain    bool // check needs no more than types and names
	resolved *jsonschema.Resolved
	text     json.RawMessage // not to be written to
	fields   map[string]int  // see fieldsOf
}

// newShape computes the shape of a struct type. It panics as New does.
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

// structTool is a Tool whose arguments are an A.
type structTool[A any] struct {
	*shape
	run     func(context.Context, A) Result
	preview func(context.Context, A) FileDiff // nil = it changes no file
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
	inv := Invocation{
		Args:     args,
		Run:      func(ctx context.Context) Result { return t.run(ctx, typed) },
		Holds:    t.spec.Holds,
		Keeps:    t.spec.Keeps,
		HasBox:   t.spec.HasBox,
		Alone:    t.spec.Alone,
		ReadOnly: t.spec.ReadOnly,
	}
	if t.preview != nil {
		inv.Preview = func(ctx context.Context) FileDiff { return t.preview(ctx, typed) }
	}
	return inv, nil
}

// fill writes the arguments into the struct to points to. Strings, integers and booleans are set
// directly; encoding/json decodes the rest, at the price of encoding it first.
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

// setField sets a field to a decoded value of exactly its type. It returns false for other values,
// which encoding/json then decodes.
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

// fieldsOf returns the indexes of the fields that setField may set, by their JSON names. Fields
// with a decoder of their own or with the option string are left to encoding/json.
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
		name = cmp.Or(name, f.Name)
		fields[name] = i
	}
	return fields
}

// plain reports whether an object's schema restricts its properties only by type and enum. check
// can do that itself, faster than the validator.
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

// check validates the arguments. Its errors say how to correct them. It removes a null from an
// optional argument, because models often write null for "not given".
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

// arguments lists the arguments in the order of the struct, for an error that a model reads.
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

// jsonType returns the JSON schema type of a decoded value.
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
