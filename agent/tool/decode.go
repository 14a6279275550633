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
	// maxArgs limits the arguments of a call. It is more than any tool needs; a longer text means
	// that the model is caught in a loop.
	maxArgs = 1 << 20
	// maxDepth limits nesting. It is more than any schema has, and small enough for a recursive
	// reader's stack.
	maxDepth = 64
	// maxExactInt is the largest integer that every JSON reader keeps exact: readers that use
	// float64 round larger ones.
	maxExactInt = 1 << 53
)

// DecodeArgs decodes the arguments of a call as every tool does: one JSON object of at most 1 MiB,
// without duplicate keys (regardless of case) and without trailing data (security.md D7). Integers
// become int64, other numbers float64. Empty text is an empty object, because some models write
// that for tools without arguments. The error is a sentence for the model.
func DecodeArgs(args json.RawMessage) (map[string]any, error) {
	if len(args) > maxArgs {
		return nil, fmt.Errorf("the arguments are %d bytes long; at most %d are read: do it in smaller parts", len(args), maxArgs)
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

// reader decodes a text that is known to be valid JSON, so it does not check the syntax again. It
// exists because the tokens of encoding/json cost an allocation each, and decoding then took longer
// than the permission check.
type reader struct {
	text []byte
	at   int
}

// next skips white space and returns the next byte without consuming it.
func (r *reader) next() byte {
	for r.text[r.at] <= ' ' {
		r.at++
	}
	return r.text[r.at]
}

// value decodes the next value. depth is its nesting, from 0.
func (r *reader) value(depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("the arguments are nested more than %d deep", maxDepth)
	}
	switch c := r.next(); c {
	case '{':
		return r.members(depth)
	case '[':
		return r.list(depth)
	case '"':
		return r.word()
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
	for r.at < len(r.text) && strings.IndexByte("+-.eE0123456789", r.text[r.at]) >= 0 {
		r.at++
	}
	return decodeNumber(string(r.text[from:r.at]))
}

// list decodes an array; r is at its bracket.
func (r *reader) list(depth int) (any, error) {
	list := []any{}
	r.at++
	for r.next() != ']' {
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		if r.next() == ',' {
			r.at++
		}
	}
	r.at++
	return list, nil
}

// members decodes an object; r is at its brace. Duplicate keys are an error, also if they differ
// only by case: readers differ in which of them they use, and the guard and the tool must not.
func (r *reader) members(depth int) (any, error) {
	object := map[string]any{}
	var folded map[string]string // the keys that are another when folded
	r.at++
	for r.next() != '}' {
		name, err := r.word()
		if err != nil {
			return nil, err
		}
		// Readers of JSON differ in which of two such keys they take, and in whether case counts.
		key := foldKey(name)
		first, twice := folded[key]
		if _, same := object[key]; same {
			first, twice = key, true
		}
		if twice {
			return nil, fmt.Errorf("the key %q is there twice (as %q); write each key once", name, first)
		}
		if key != name {
			if folded == nil {
				folded = map[string]string{}
			}
			folded[key] = name
		}
		r.next() // the colon
		r.at++
		if object[name], err = r.value(depth + 1); err != nil {
			return nil, err
		}
		if r.next() == ',' {
			r.at++
		}
	}
	r.at++
	return object, nil
}

// word decodes a string. Strings with escapes are left to encoding/json.
func (r *reader) word() (string, error) {
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
	var s string
	err := json.Unmarshal(r.text[from:r.at], &s)
	return s, err
}

// foldKey returns the same text for all keys that encoding/json treats as equal. It folds case by
// Unicode's simple folding: ſ is s, and K (the Kelvin sign) is k.
func foldKey(key string) string {
	for i := range len(key) {
		if c := key[i]; c >= utf8.RuneSelf || 'A' <= c && c <= 'Z' {
			return strings.ToLower(strings.ToUpper(key))
		}
	}
	return key
}

// decodeNumber decodes a number. It refuses those that cannot be represented exactly, because a
// rounded id would name another thing.
func decodeNumber(text string) (any, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if n > maxExactInt || n < -maxExactInt {
			return nil, fmt.Errorf("the number %s is too large to be exact; write it as a string if the tool takes one", text)
		}
		return n, nil
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(x, 0) || math.Abs(x) > maxExactInt {
		return nil, fmt.Errorf("the number %.40s is too large", text)
	}
	// 3.0 and 3e0 are whole numbers too, in JSON schema as to a person.
	if x == math.Trunc(x) {
		return int64(x), nil
	}
	return x, nil
}
