package community

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

// MaxDepth is how deep a JSON payload may be nested, unless Config.MaxDepth says otherwise: far beyond
// what people write, and far from what a recursive reader cannot stand (security.md 5.3).
const MaxDepth = 64

// CheckJSON tells whether data is one JSON value, nested at most depth deep; an error wraps ErrInvalid
// and may be shown to another node. It keeps nothing of the value: for payloads that are only handed on.
func CheckJSON(data []byte, depth int) error {
	if err := checkDepth(data, depth); err != nil {
		return Explain(ErrInvalid, err.Error())
	}
	if !json.Valid(data) {
		return Explain(ErrInvalid, "it is not JSON")
	}
	return nil
}

// checkDepth counts brackets outside of strings. What is no JSON may pass.
func checkDepth(data []byte, most int) error {
	depth, text := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			if depth++; depth > most {
				return fmt.Errorf("it is nested more than %d deep", most)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// decode reads one JSON value so that nobody who reads the same text can see another one in it: no key
// twice, with fold none that differs only in case, and nothing after it. Numbers become int64 where
// they fit, else float64. Empty data is null, as it is for whoever gets it.
func decode(data []byte, depth int, fold bool) (any, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, nil
	}
	if err := checkDepth(data, depth); err != nil {
		return nil, err
	}
	if !json.Valid(data) || !utf8.Valid(data) {
		return nil, errors.New("it is not JSON")
	}
	return (&decoder{data: data, fold: fold}).value()
}

// decoder walks over text that is known to be JSON. encoding/json's Decoder, the other way to see keys
// that are there twice, takes several times as long.
type decoder struct {
	data []byte
	at   int
	fold bool
}

// next skips white space, and returns what stands there.
func (d *decoder) next() byte {
	for {
		switch c := d.data[d.at]; c {
		case ' ', '\t', '\n', '\r':
			d.at++
		default:
			return c
		}
	}
}

func (d *decoder) value() (any, error) {
	switch d.next() {
	case '{':
		return d.object()
	case '[':
		return d.array()
	case '"':
		return d.text()
	case 't':
		d.at += len("true")
		return true, nil
	case 'f':
		d.at += len("false")
		return false, nil
	case 'n':
		d.at += len("null")
		return nil, nil
	}
	begin := d.at
	for d.at < len(d.data) && strings.IndexByte("+-.eE0123456789", d.data[d.at]) >= 0 {
		d.at++
	}
	return decodeNumber(string(d.data[begin:d.at]))
}

func (d *decoder) array() (any, error) {
	list := []any{}
	for d.at++; d.next() != ']'; {
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		if d.next() == ',' {
			d.at++
		}
	}
	d.at++
	return list, nil
}

func (d *decoder) object() (any, error) {
	object := map[string]any{}
	folded := map[string]bool{}
	for d.at++; d.next() != '}'; {
		name, err := d.text()
		if err != nil {
			return nil, err
		}
		_, twice := object[name]
		if d.fold {
			key := strings.ToLower(strings.ToUpper(name)) // as encoding/json folds: ſ is s
			twice, folded[key] = folded[key], true
		}
		if twice {
			return nil, fmt.Errorf("the key %q is there twice", name)
		}
		d.next()
		d.at++ // the colon
		if object[name], err = d.value(); err != nil {
			return nil, err
		}
		if d.next() == ',' {
			d.at++
		}
	}
	d.at++
	return object, nil
}

func (d *decoder) text() (string, error) {
	begin, escaped := d.at, false
	for d.at++; d.data[d.at] != '"'; d.at++ {
		if d.data[d.at] == '\\' {
			escaped = true
			d.at++
		}
	}
	d.at++
	if !escaped {
		return string(d.data[begin+1 : d.at-1]), nil
	}
	var s string
	err := json.Unmarshal(d.data[begin:d.at], &s)
	return s, err
}

func decodeNumber(text string) (any, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(x, 0) {
		return nil, fmt.Errorf("the number %.40s is too large", text)
	}
	return x, nil
}
