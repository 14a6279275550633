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

// decoder reads one JSON value so that nobody who reads the same text can see another one in it: no
// key twice, nothing after it. Numbers become int64 where they fit, else float64.
type decoder struct {
	*json.Decoder
	fold bool // keys that differ only in case are the same: for what encoding/json decodes into a struct
}

// decode reads data. Empty data is null, as it is for whoever gets it.
func decode(data []byte, depth int, fold bool) (any, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, nil
	}
	if err := checkDepth(data, depth); err != nil {
		return nil, err
	}
	// The whole text first: reading it token by token is laxer about what stands between them.
	if !json.Valid(data) || !utf8.Valid(data) {
		return nil, errors.New("it is not JSON")
	}
	d := decoder{json.NewDecoder(bytes.NewReader(data)), fold}
	d.UseNumber()
	return d.value()
}

func (d decoder) value() (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '{' {
			return d.object()
		}
		list := []any{}
		for d.More() {
			v, err := d.value()
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

func (d decoder) object() (any, error) {
	object := map[string]any{}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := t.(string)
		_, twice := object[name]
		if d.fold {
			key := strings.ToLower(strings.ToUpper(name)) // as encoding/json folds: ſ is s
			twice, seen[key] = seen[key], true
		}
		if twice {
			return nil, fmt.Errorf("the key %q is there twice", name)
		}
		if object[name], err = d.value(); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return object, err
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
