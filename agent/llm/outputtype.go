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

// Enum is a string type with a fixed set of values. Enum returns them; it is called on the
// zero value.
type Enum interface{ Enum() []string }

// FormFor returns the form with which Generate asks for a T. Its schema is what
// google/jsonschema-go infers from the type: omitempty and omitzero make a field optional, a
// pointer may be null, all other fields are required, unknown fields are refused, and the
// jsonschema tag is the description. In addition:
//
//   - a type with Enum (Enumerated) is a string of those;
//   - time.Time is a string in RFC 3339, and a time.Duration a number of nanoseconds, as encoding/json reads them;
//   - a type that is no object (a list, a string, a number) is wrapped in one, {"value": …}, because the wires take only
//     objects.
//
// A recursive type has no schema. The error names the part of T that has no schema.
//
// read returns the T of an answer. Its error is a text for the model, like the error of Form.Document.
func FormFor[T any]() (f *Form, read func(answer string) (T, error), err error) {
	f, wrapped, err := formOf(reflect.TypeFor[T]())
	if err != nil {
		return nil, nil, fmt.Errorf("a form of %v: %w", reflect.TypeFor[T](), err)
	}
	return f, func(answer string) (T, error) {
		var box, none struct {
			Value T `json:"value"`
		}
		into := any(&box)
		if !wrapped {
			into = &box.Value
		}
		doc, err := f.Document(answer)
		if err != nil {
			return none.Value, err
		}
		if err := json.Unmarshal([]byte(doc), into); err != nil {
			return none.Value, errors.New(shorten(err.Error()))
		}
		return box.Value, nil
	}, nil
}

// formOf returns the form of a type, and whether its values are wrapped in an object. It is not cached: inferring it
// takes far less time than the model's answer.
func formOf(t reflect.Type) (f *Form, wrapped bool, err error) {
	known := map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[time.Time]():     {Type: "string", Format: "date-time", Description: "RFC 3339, such as 2006-01-02T15:04:05Z"},
		reflect.TypeFor[time.Duration](): {Type: "integer", Description: "nanoseconds"},
	}
	if err := addEnums(known, t, map[reflect.Type]bool{}); err != nil {
		return nil, false, err
	}
	s, ok := known[t]
	if !ok {
		if s, err = jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: known}); err != nil {
			return nil, false, err
		}
	}
	if wrapped = s.Type != "object"; wrapped {
		s = &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"value": s}, Required: []string{"value"},
			AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}}
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, false, err
	}
	f, err = NewForm(Output{Name: outputName(t), Schema: text})
	return f, wrapped, err
}

// addEnums adds the schemas of the Enumerated types in t to known. seen are the visited types,
// which end recursion.
func addEnums(known map[reflect.Type]*jsonschema.Schema, t reflect.Type, seen map[reflect.Type]bool) error {
	if seen[t] || known[t] != nil {
		return nil
	}
	seen[t] = true
	if v, ok := reflect.New(t).Interface().(Enum); ok { // a pointer has the methods of both
		if t.Kind() != reflect.String {
			return fmt.Errorf("%v has Enum and is no string", t)
		}
		s := &jsonschema.Schema{Type: "string"}
		for _, word := range v.Enum() {
			s.Enum = append(s.Enum, word)
		}
		if len(s.Enum) == 0 {
			return fmt.Errorf("%v: Enum lists no value", t)
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
		return errors.New("the values of an interface are not known; use a type")
	}
	return nil
}

// outputName returns a type's name with the characters that the wires allow, at most 48 so that a
// prefix still fits into 64.
func outputName(t reflect.Type) string {
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
