// Package strictjson reads JSON that another program may read, too, and refuses a text that the two could read differently: a
// key that is there twice, text behind the value, fields that are not known, or text that is not valid UTF-8. A guard and the
// code that it guards then see the same value.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxExactInt is the largest integer that every JSON reader keeps exact: readers that use
// float64 round larger ones.
const maxExactInt = 1 << 53

var (
	// ErrSyntax is the error for a text that is not one JSON value.
	ErrSyntax = errors.New("it is not JSON")
	errUTF8   = errors.New("it is not valid UTF-8")
)

// Unmarshal decodes a text that is one JSON value, as encoding/json does, and refuses fields that v does not have.
func Unmarshal(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is data behind its end")
	}
	return nil
}

// Options say what Decode refuses besides.
type Options struct {
	// MaxDepth is how deep lists and objects may be nested.
	MaxDepth int
	// FoldKeys refuses keys of an object that differ only by case: readers differ in whether case counts.
	FoldKeys bool
	// ExactNumbers refuses numbers that a reader with float64 would round, because a rounded id would name another thing.
	// Whole numbers become int64 however they are written.
	ExactNumbers bool
	// ReplaceHalves reads half of a surrogate pair as U+FFFD, as encoding/json does, because models write some. Without it
	// such a text is refused: other readers keep the half.
	ReplaceHalves bool
}

// Decode decodes a text that is one JSON value. Numbers become int64 if they fit, else float64. The errors are for people and
// models; the error for a text without a value wraps ErrSyntax.
func Decode(text []byte, o Options) (any, error) {
	if !utf8.Valid(text) {
		return nil, errUTF8
	}
	// The whole text first: reading it piece by piece is laxer about what stands between the pieces.
	if !json.Valid(text) {
		var whole json.RawMessage
		return nil, fmt.Errorf("%w: %w", ErrSyntax, json.Unmarshal(text, &whole))
	}
	r := reader{text: text, options: o}
	return r.value(0)
}

// reader decodes a text that is known to be valid JSON, so it does not check the syntax again. It
// exists because the tokens of encoding/json cost an allocation each, and decoding then took longer
// than the permission check.
type reader struct {
	text    []byte
	at      int
	options Options
}

// next skips white space and returns the next byte without consuming it.
func (r *reader) next() byte {
	for r.text[r.at] <= ' ' {
		r.at++
	}
	return r.text[r.at]
}

// value decodes the next value, which depth lists and objects have around it.
func (r *reader) value(depth int) (any, error) {
	c := r.next()
	if (c == '{' || c == '[') && depth >= r.options.MaxDepth {
		return nil, fmt.Errorf("it is nested more than %d deep", r.options.MaxDepth)
	}
	switch c {
	case '{':
		return r.members(depth + 1)
	case '[':
		return r.list(depth + 1)
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
	return r.number(string(r.text[from:r.at]))
}

// list decodes an array; r is at its bracket.
func (r *reader) list(depth int) (any, error) {
	list := []any{}
	r.at++
	for r.next() != ']' {
		v, err := r.value(depth)
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

// members decodes an object; r is at its brace. Duplicate keys are an error: readers differ in which of them they use.
func (r *reader) members(depth int) (any, error) {
	object := map[string]any{}
	var folded map[string]string // the keys that are another when folded
	r.at++
	for r.next() != '}' {
		name, err := r.word()
		if err != nil {
			return nil, err
		}
		key := name
		if r.options.FoldKeys {
			key = foldKey(name)
		}
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
		if object[name], err = r.value(depth); err != nil {
			return nil, err
		}
		if r.next() == ',' {
			r.at++
		}
	}
	r.at++
	return object, nil
}

// word decodes a string. Strings with escapes are left to encoding/json, which replaces half of a surrogate pair.
func (r *reader) word() (string, error) {
	from, plain := r.at, true
	for r.at++; r.text[r.at] != '"'; r.at++ {
		if r.text[r.at] == '\\' {
			plain = false
			r.at++
		}
	}
	r.at++
	text := r.text[from:r.at]
	if plain {
		return string(text[1 : len(text)-1]), nil
	}
	var s string
	err := json.Unmarshal(text, &s)
	if replaced := strings.Count(s, "\uFFFD"); !r.options.ReplaceHalves &&
		replaced > bytes.Count(text, []byte("\uFFFD"))+bytes.Count(bytes.ToLower(text), []byte(`\ufffd`)) {
		return "", errUTF8
	}
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

// number decodes a number.
func (r *reader) number(text string) (any, error) {
	exact := r.options.ExactNumbers
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if exact && (n > maxExactInt || n < -maxExactInt) {
			return nil, fmt.Errorf("the number %s is too large to be exact; write it as a string if the tool takes one", text)
		}
		return n, nil
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(x, 0) || exact && math.Abs(x) > maxExactInt {
		return nil, fmt.Errorf("the number %.40s is too large", text)
	}
	// 3.0 and 3e0 are whole numbers, too, in JSON schema as to a person.
	if exact && x == math.Trunc(x) {
		return int64(x), nil
	}
	return x, nil
}
