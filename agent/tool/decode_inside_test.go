package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
)

// token reads a value by encoding/json's own tokens: slower, and what the reader is held against.
func token(d *json.Decoder, depth int) (any, error) {
	if depth > deepest {
		return nil, fmt.Errorf("the arguments are nested more than %d deep", deepest)
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Delim:
		list, object, seen := []any{}, map[string]any{}, map[string]string{}
		for d.More() {
			if t == '[' {
				v, err := token(d, depth+1)
				if err != nil {
					return nil, err
				}
				list = append(list, v)
				continue
			}
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			name := key.(string)
			if first, twice := seen[foldKey(name)]; twice {
				return nil, fmt.Errorf("the key %q is there twice (as %q); write each key once", name, first)
			}
			seen[foldKey(name)] = name
			if object[name], err = token(d, depth+1); err != nil {
				return nil, err
			}
		}
		if _, err := d.Token(); err != nil {
			return nil, err
		}
		if t == '[' {
			return list, nil
		}
		return object, nil
	case json.Number:
		return decodeNumber(t.String())
	}
	return t, nil
}

func byTokens(args []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	v, err := token(d, 0)
	if err != nil {
		return nil, err
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("no object")
	}
	return object, nil
}

type scalars struct {
	S string  `json:"s"`
	I int     `json:"i,omitempty"`
	F float64 `json:"f,omitempty"`
	B bool    `json:"b,omitempty"`
}

// Whatever a model writes is read as encoding/json reads it, or refused; and what a plain schema's own check takes,
// the schema takes.
func FuzzArgumentsAreReadAsOthersReadThem(f *testing.F) {
	for _, seed := range []string{
		`{}`, ` {"s" : "a" , "i":1,"f":-1.5e3 ,"b":true}`, `{"s":"\u0061\"\\","i":3.0}`, `{"s":null,"b":false,"i":null}`, `[]`, `"x"`, `12`, `null`, `{"s":[1,[],{},[[{"a":[null]}]]]}`,
		`{"s":"a","S":"b"}`, `{"\u0073":"a","s":"b"}`, `{"s":1e400}`, `{"i":9007199254740993}`, `{"s":"\ud800"}`, `{"s":"é"}`, "{\"s\":\"\xff\"}", `{"s":"a"} x`, `{"s":`, `{"s":1,}`, `{"k":"\/\b"}`, `{"i":-0,"f":0e0}`,
	} {
		f.Add([]byte(seed))
	}
	t0 := New(Spec{Name: "x"}, func(context.Context, scalars) Result { return Result{} }).(*typed[scalars])
	if !t0.plain {
		f.Fatal("a struct of scalars is not plain")
	}
	f.Fuzz(func(t *testing.T, args []byte) {
		got, err := DecodeArgs(args)
		want, wantErr := byTokens(args)
		if err == nil && len(bytes.TrimSpace(args)) > 0 && (wantErr != nil || !reflect.DeepEqual(got, want)) {
			t.Fatalf("%q is read as %#v, by others as %#v, %v", args, got, want, wantErr)
		}
		if err != nil && wantErr == nil && json.Valid(args) && bytes.Equal(args, bytes.ToValidUTF8(args, nil)) {
			t.Fatalf("%q is refused: %v", args, err)
		}
		if err != nil {
			return
		}
		checked := t0.check(got)
		if valid := t0.resolved.Validate(got); (checked == nil) != (valid == nil) {
			t.Fatalf("%q: the check says %v, the schema %v", args, checked, valid)
		}
	})
}

func isPlain[A any]() bool {
	return New(Spec{Name: "x"}, func(context.Context, A) Result { return Result{} }).(*typed[A]).plain
}

func TestASchemaThatSaysMoreThanTypesIsNotPlain(t *testing.T) {
	for name, is := range map[string]bool{
		"a list":   isPlain[struct{ A []string }](),
		"a map":    isPlain[struct{ A map[string]string }](),
		"a struct": isPlain[struct{ A struct{ B string } }](),
		"a limit":  isPlain[struct{ A uint8 }](),
		"anything": isPlain[struct{ A any }](),
		"a choice": isPlain[struct{ A *string }](),
	} {
		if is {
			t.Errorf("%s is plain", name)
		}
	}
}
