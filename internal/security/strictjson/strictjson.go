// Package strictjson reads JSON that another program may read, too, and refuses a text that the two could read differently: a
// key that is there twice, text behind the value, fields that are not known, or text that is not valid UTF-8. A guard and the
// code that it guards then see the same value.
package strictjson

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	fastjson "github.com/segmentio/encoding/json"
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
	r := reader{text: text, options: o}
	v, err := r.value(0)
	if err == nil && (r.next() != 0 || r.at < len(text)) {
		err = ErrSyntax
	}
	if err == ErrSyntax { // encoding/json says where
		var whole json.RawMessage
		err = fmt.Errorf("%w: %w", err, json.Unmarshal(text, &whole))
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// reader checks and decodes a text in one pass. It exists because the tokens of encoding/json cost an
// allocation each, and its check of the syntax takes longer than the rest. Its methods return ErrSyntax
// itself for a text that is not JSON.
type reader struct {
	text    []byte
	at      int
	options Options
}

// next skips white space and returns the next byte without consuming it; 0 at the end.
func (r *reader) next() byte {
	for ; r.at < len(r.text); r.at++ {
		if c := r.text[r.at]; c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return c
		}
	}
	return 0
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
	}
	from := r.at
	for r.at < len(r.text) && strings.IndexByte("+-.0123456789Eaeflnrstu", r.text[r.at]) >= 0 {
		r.at++
	}
	switch text := r.text[from:r.at]; string(text) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	case "null":
		return nil, nil
	default:
		if !json.Valid(text) {
			return nil, ErrSyntax
		}
		return r.number(string(text))
	}
}

// elements calls element for each element of an array or object, which the bracket end ends; r is at the other one.
func (r *reader) elements(end byte, element func() error) error {
	if r.at++; r.next() == end {
		r.at++
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		c := r.next()
		if r.at++; c == end {
			return nil
		}
		if c != ',' {
			return ErrSyntax
		}
	}
}

// list decodes an array; r is at its bracket.
func (r *reader) list(depth int) (any, error) {
	list := []any{}
	err := r.elements(']', func() error {
		v, err := r.value(depth)
		list = append(list, v)
		return err
	})
	return list, err
}

// members decodes an object; r is at its brace. Duplicate keys are an error: readers differ in which of them they use.
func (r *reader) members(depth int) (any, error) {
	object := map[string]any{}
	var folded map[string]string // the keys that are another when folded
	err := r.elements('}', func() error {
		name, err := r.word()
		if err != nil {
			return err
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
			return fmt.Errorf("the key %q is there twice (as %q); write each key once", name, first)
		}
		if key != name {
			if folded == nil {
				folded = map[string]string{}
			}
			folded[key] = name
		}
		if r.next() != ':' {
			return ErrSyntax
		}
		r.at++
		object[name], err = r.value(depth)
		return err
	})
	return object, err
}

// hasControl reports whether a control character is in text, 8 bytes at a time: the highest bit of each byte of a
// difference is set if the byte is less than a space.
func hasControl(text []byte) bool {
	const each, high = 0x0101010101010101, 0x8080808080808080
	for ; len(text) >= 8; text = text[8:] {
		if w := binary.LittleEndian.Uint64(text); (w-each*' ')&^w&high != 0 {
			return true
		}
	}
	return slices.ContainsFunc(text, func(c byte) bool { return c < ' ' })
}

// word decodes a string. Strings with escapes are left to a library, which replaces half of a surrogate pair as encoding/json does.
func (r *reader) word() (string, error) {
	if r.next() != '"' {
		return "", ErrSyntax
	}
	from := r.at
	r.at++
	plain := r.text[r.at:]
	if end := bytes.IndexByte(plain, '"'); end >= 0 {
		plain = plain[:end]
	}
	if r.at += len(plain) + 1; bytes.IndexByte(plain, '\\') < 0 {
		if r.at > len(r.text) || hasControl(plain) {
			return "", ErrSyntax
		}
		return string(plain), nil
	}
	for r.at = from + 1; r.at < len(r.text) && r.text[r.at] != '"'; r.at++ {
		if r.text[r.at] == '\\' {
			r.at++
		}
	}
	if r.at++; r.at > len(r.text) {
		return "", ErrSyntax
	}
	text := r.text[from:r.at]
	var s string
	if fastjson.Unmarshal(text, &s) != nil {
		return "", ErrSyntax
	}
	if replaced := strings.Count(s, "\uFFFD"); replaced > 0 && !r.options.ReplaceHalves &&
		replaced > bytes.Count(text, []byte("\uFFFD"))+bytes.Count(bytes.ToLower(text), []byte(`\ufffd`)) {
		return "", errUTF8
	}
	return s, nil
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
