package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// mostArgs is more than any tool here takes; a larger text is a model that went astray.
	mostArgs = 1 << 20
	// deepest is far beyond any schema, and far from what a recursive reader could not stand.
	deepest = 64
	// mostExact is the largest whole number that every JSON reader keeps exact.
	mostExact = 1 << 53
)

// DecodeArgs reads the arguments of a call as every tool here does: one JSON object of at most 1 MiB, no
// key twice however it is cased, nothing after it (security.md D7). Whole numbers become int64, others
// float64. No text at all is an empty object: some models write that for a tool without arguments.
func DecodeArgs(args json.RawMessage) (map[string]any, error) {
	if len(args) > mostArgs {
		return nil, fmt.Errorf("the arguments are %d bytes long; at most %d are read: do it in smaller parts", len(args), mostArgs)
	}
	if len(bytes.TrimSpace(args)) == 0 {
		return map[string]any{}, nil
	}
	if !utf8.Valid(args) {
		return nil, errors.New("the arguments are not valid UTF-8")
	}
	// The whole text first: reading it token by token is laxer about what stands between them.
	if !json.Valid(args) {
		var whole json.RawMessage
		return nil, fmt.Errorf("the arguments are not one JSON object: %w", json.Unmarshal(args, &whole))
	}
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	v, err := decodeValue(d, 0)
	if err != nil {
		return nil, err
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("the arguments have to be one JSON object, such as {\"name\": \"value\"}")
	}
	return object, nil
}

func decodeValue(d *json.Decoder, depth int) (any, error) {
	if depth > deepest {
		return nil, fmt.Errorf("the arguments are nested more than %d deep", deepest)
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '{' {
			return decodeMembers(d, depth)
		}
		list := []any{}
		for d.More() {
			v, err := decodeValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.Token()
		return list, err
	case json.Number:
		return decodeNumber(t.String())
	}
	return t, nil
}

func decodeMembers(d *json.Decoder, depth int) (any, error) {
	object := map[string]any{}
	seen := map[string]string{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := t.(string)
		// Readers of JSON differ in which of two such keys they take, and in whether case counts.
		if first, twice := seen[foldKey(name)]; twice {
			return nil, fmt.Errorf("the key %q is there twice (as %q); write each key once", name, first)
		}
		seen[foldKey(name)] = name
		if object[name], err = decodeValue(d, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return object, err
}

// foldKey makes equal what encoding/json takes for the same key, which folds case by Unicode's simple
// folding: ſ is s and K (the sign for Kelvin) is k.
func foldKey(key string) string { return strings.ToLower(strings.ToUpper(key)) }

func decodeNumber(text string) (any, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if n > mostExact || n < -mostExact {
			return nil, fmt.Errorf("the number %s is too large to be exact; write it as a string if the tool takes one", text)
		}
		return n, nil
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(x, 0) || math.Abs(x) > mostExact {
		return nil, fmt.Errorf("the number %.40s is too large", text)
	}
	// 3.0 and 3e0 are whole numbers too, in JSON schema as to a person.
	if x == math.Trunc(x) {
		return int64(x), nil
	}
	return x, nil
}
