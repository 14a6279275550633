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

// Form is the form that Generate asks for a T in: the schema that google/jsonschema-go infers of the type, in which
// omitempty and omitzero make a field optional, a pointer may be null, other fields are required, further ones
// refused, and the jsonschema tag describes. Beyond that:
//
//   - a type with Enum (Enumerated) is a string of those;
//   - time.Time is a string in RFC 3339, and a time.Duration a number of nanoseconds, as encoding/json reads them;
//   - what is no object (a list, a string, a number) is asked for inside one, {"value": …}.
//
// A type that contains itself has no schema. The error says what of T has no schema.
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
	if err := addEnums(known, t, map[reflect.Type]bool{}); err != nil {
		return nil, err
	}
	s, ok := known[t]
	if !ok {
		var err error
		if s, err = jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: known}); err != nil {
			return nil, err
		}
	}
	f := &form{}
	if s.Type != "object" {
		f.wrapped = true
		s = &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"value": s}, Required: []string{"value"}, AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}}
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

// addEnums adds the schemas of the enumerations in a type to known. seen are the types that were looked at.
func addEnums(known map[reflect.Type]*jsonschema.Schema, t reflect.Type, seen map[reflect.Type]bool) error {
	if seen[t] || known[t] != nil {
		return nil
	}
	seen[t] = true
	if v, ok := reflect.New(t).Interface().(Enumerated); ok { // a pointer has the methods of both
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
		return addEnums(known, t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() || f.Anonymous {
				if err := addEnums(known, f.Type, seen); err != nil {
					return err
				}
			}
		}
	case reflect.Interface:
		return errors.New("an interface says nothing about its values; use a type")
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
