package llm

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// Enumerated is a type of strings of which only some are allowed, as an enumeration in Go. Enum is called on the zero
// value.
type Enumerated interface{ Enum() []string }

// Schemed is a type that brings a JSON schema of its own: one that refers to itself ({"$ref": "#"}), or that Go's
// types cannot say. JSONSchema is called on the zero value.
type Schemed interface{ JSONSchema() string }

// Form is the form that Generate asks for a T in: the schema that google/jsonschema-go infers of the type, in which
// omitempty and omitzero make a field optional, a pointer may be null, other fields are required, further ones
// refused, and the jsonschema tag describes. Beyond that:
//
//   - a type with Enum (Enumerated) is a string of those;
//   - a type with JSONSchema (Schemed) has that schema; nothing else makes a type that contains itself possible;
//   - time.Time is a string in RFC 3339, and a time.Duration a number of nanoseconds, as encoding/json reads them;
//   - what is no object (a list, a string, a number) is asked for inside one, {"value": …}.
//
// The error says what of T has no schema.
func Form[T any]() (*Output, error) {
	f, err := formOf(reflect.TypeFor[T]())
	if err != nil {
		return nil, err
	}
	return f.output, nil
}

// form is what is known of a type.
type form struct {
	output   *Output
	resolved *jsonschema.Resolved
	wrapped  bool
}

// formOf makes the form anew: it costs far less than the model's answer, and nothing has to be remembered.
func formOf(t reflect.Type) (*form, error) {
	f, err := newForm(t)
	if err != nil {
		return nil, fmt.Errorf("a form of %v: %w", t, err)
	}
	return f, nil
}

func newForm(t reflect.Type) (*form, error) {
	known := map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[time.Time]():     {Type: "string", Format: "date-time", Description: "RFC 3339, such as 2006-01-02T15:04:05Z"},
		reflect.TypeFor[time.Duration](): {Type: "integer", Description: "nanoseconds"},
	}
	defs := map[string]*jsonschema.Schema{}
	if err := special(t, known, defs, map[reflect.Type]bool{}); err != nil {
		return nil, err
	}
	s, whole, err := rootOf(t, known)
	if err != nil {
		return nil, err
	}
	f := &form{}
	if s.Type != "object" {
		f.wrapped = true
		s = &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"value": s}, Required: []string{"value"}, AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}}
	}
	if !whole && len(defs) > 0 {
		s.Defs = defs
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	if f.resolved, err = s.Resolve(nil); err != nil {
		return nil, err
	}
	f.output = &Output{Name: formName(t), Schema: text}
	return f, nil
}

// rootOf is the schema of the type that is asked for. One that the type brings itself, of an object, stands there as it
// is, whole; others are referred to.
func rootOf(t reflect.Type, known map[reflect.Type]*jsonschema.Schema) (s *jsonschema.Schema, whole bool, err error) {
	s, ok := known[t]
	if !ok {
		s, err = jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: known})
		return s, false, err
	}
	if v, brings := reflect.New(t).Interface().(Schemed); brings {
		own := new(jsonschema.Schema)
		if err := json.Unmarshal([]byte(v.JSONSchema()), own); err != nil {
			return nil, false, err
		}
		if own.Type == "object" {
			return own, true, nil
		}
	}
	return s, false, nil
}

// hoisted puts a type's own schema among the definitions of the whole, and returns a reference to it. What it refers
// to within itself is then found there.
func hoisted(t reflect.Type, text string, defs map[string]*jsonschema.Schema) (*jsonschema.Schema, error) {
	name := fmt.Sprintf("%s%d", formName(t), len(defs))
	at := "#/$defs/" + name
	var tree any
	if err := json.Unmarshal([]byte(text), &tree); err != nil {
		return nil, fmt.Errorf("the schema of %v: %w", t, err)
	}
	moved, err := json.Marshal(moveRefs(tree, at))
	if err != nil {
		return nil, err
	}
	s := new(jsonschema.Schema)
	if err := json.Unmarshal(moved, s); err != nil {
		return nil, fmt.Errorf("the schema of %v: %w", t, err)
	}
	defs[name] = s
	return &jsonschema.Schema{Ref: at}, nil
}

func moveRefs(v any, to string) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = moveRefs(v[i], to)
		}
	case map[string]any:
		for k := range v {
			if ref, ok := v[k].(string); ok && k == "$ref" && strings.HasPrefix(ref, "#") {
				v[k] = to + ref[1:]
				continue
			}
			v[k] = moveRefs(v[k], to)
		}
	}
	return v
}

// special collects the schemas of types that bring their own.
func special(t reflect.Type, known map[reflect.Type]*jsonschema.Schema, defs map[string]*jsonschema.Schema, seen map[reflect.Type]bool) error {
	if seen[t] || known[t] != nil {
		return nil
	}
	seen[t] = true
	switch v := reflect.New(t).Interface().(type) { // a pointer has the methods of both
	case Schemed:
		s, err := hoisted(t, v.JSONSchema(), defs)
		known[t] = s
		return err
	case Enumerated:
		if t.Kind() != reflect.String {
			return fmt.Errorf("%v has Enum and is no string", t)
		}
		s := &jsonschema.Schema{Type: "string"}
		for _, word := range v.Enum() {
			s.Enum = append(s.Enum, word)
		}
		if len(s.Enum) == 0 {
			return fmt.Errorf("%v: Enum allows nothing", t)
		}
		known[t] = s
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return special(t.Elem(), known, defs, seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() || f.Anonymous {
				if err := special(f.Type, known, defs, seen); err != nil {
					return err
				}
			}
		}
	case reflect.Interface:
		return errors.New("an interface says nothing about its values; use a type, or one with JSONSchema")
	}
	return nil
}

// formName is a type's name as the wires take it.
func formName(t reflect.Type) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, t.Name())
	if name == "" {
		return "answer"
	}
	return name[:min(len(name), 48)]
}
