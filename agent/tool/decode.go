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
	r := reader{text: args}
	v, err := r.value(0)
	if err != nil {
		return nil, err
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("the arguments have to be one JSON object, such as {\"name\": \"value\"}")
	}
	return object, nil
}

// reader reads JSON that is known to be valid, in one pass: encoding/json does not tell of keys that are there twice,
// and its tokens cost more than all else that a call does.
type reader struct {
	text []byte
	at   int
}

// next is the first byte that is no white space.
func (r *reader) next() byte {
	for r.at < len(r.text) {
		switch c := r.text[r.at]; c {
		case ' ', '\t', '\r', '\n':
			r.at++
		default:
			return c
		}
	}
	return 0
}

func (r *reader) value(depth int) (any, error) {
	if depth > deepest {
		return nil, fmt.Errorf("the arguments are nested more than %d deep", deepest)
	}
	switch r.next() {
	case '{':
		return r.object(depth)
	case '[':
		return r.list(depth)
	case '"':
		return r.string()
	case 't':
		r.at += len("true")
		return true, nil
	case 'f':
		r.at += len("false")
		return false, nil
	case 'n':
		r.at += len("null")
		return nil, nil
	}
	from := r.at
	for r.at < len(r.text) && strings.IndexByte("+-.0123456789Ee", r.text[r.at]) >= 0 {
		r.at++
	}
	return decodeNumber(string(r.text[from:r.at]))
}

func (r *reader) list(depth int) (any, error) {
	list := []any{}
	for r.at++; r.next() != ']'; {
		if r.next() == ',' {
			r.at++
		}
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	r.at++
	return list, nil
}

func (r *reader) object(depth int) (any, error) {
	object := map[string]any{}
	var seen map[string]string
	for r.at++; r.next() != '}'; {
		if r.next() == ',' {
			r.at++
			r.next()
		}
		name, err := r.string()
		if err != nil {
			return nil, err
		}
		// Readers of JSON differ in which of two such keys they take, and in whether case counts.
		key := foldKey(name)
		if first, twice := seen[key]; twice {
			return nil, fmt.Errorf("the key %q is there twice (as %q); write each key once", name, first)
		}
		if seen == nil {
			seen = map[string]string{}
		}
		seen[key] = name
		r.next()
		r.at++ // the colon
		if object[name], err = r.value(depth + 1); err != nil {
			return nil, err
		}
	}
	r.at++
	return object, nil
}

// string reads a string, at its quotation mark.
func (r *reader) string() (string, error) {
	from, plain := r.at, true
	for r.at++; r.text[r.at] != '"'; r.at++ {
		if r.text[r.at] == '\\' {
			plain = false
			r.at++
		}
	}
	r.at++
	if plain {
		return string(r.text[from+1 : r.at-1]), nil
	}
	var text string
	err := json.Unmarshal(r.text[from:r.at], &text)
	return text, err
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
