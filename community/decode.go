package community

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is the default of Config.MaxDepth: how deep a JSON payload may be nested. It is far more than people
// write, and far less than a recursive reader can handle (security.md 5.3).
const MaxDepth = 64

// CheckJSON returns an error unless data is one JSON value, nested at most depth deep. The error wraps ErrInvalid
// and may be shown to another node. CheckJSON does not build the value: it is for payloads that are only passed
// on.
func CheckJSON(data []byte, depth int) error {
	if err := checkDepth(data, depth); err != nil {
		return Explain(ErrInvalid, err.Error())
	}
	if !json.Valid(data) {
		return Explain(ErrInvalid, "it is not JSON")
	}
	return nil
}

// checkDepth counts brackets outside of strings. It can accept data that is not JSON.
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

// decode reads one JSON value and refuses text that another reader could read differently: a key twice (with fold
// also in another case), or data after the value. Numbers become int64 if they fit, else float64. Empty data is
// null, as it is for a Provider.
func decode(data []byte, depth int, fold bool) (any, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, nil
	}
	if err := checkDepth(data, depth); err != nil {
		return nil, err
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(data))
	v, err := decodeValue(d, fold)
	if err == nil {
		if _, end := d.ReadToken(); end != io.EOF {
			return nil, errNotJSON
		}
	}
	var wrong *jsontext.SyntacticError
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &wrong):
		return nil, fmt.Errorf("the key %q is there twice", wrong.JSONPointer.LastToken())
	case errors.As(err, &wrong):
		return nil, errNotJSON
	}
	return v, err
}

var errNotJSON = errors.New("it is not JSON")

// decodeValue reads the next value. checkDepth has limited its recursion.
func decodeValue(d *jsontext.Decoder, fold bool) (any, error) {
	token, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case jsontext.KindBeginObject:
		return decodeObject(d, fold)
	case jsontext.KindBeginArray:
		list := []any{}
		for d.PeekKind() != jsontext.KindEndArray {
			v, err := decodeValue(d, fold)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.ReadToken()
		return list, err
	case jsontext.KindString:
		return token.String(), nil
	case jsontext.KindNumber:
		return decodeNumber(token.String())
	case jsontext.KindTrue, jsontext.KindFalse:
		return token.Bool(), nil
	}
	return nil, nil
}

// decodeObject reads the members of an object.
func decodeObject(d *jsontext.Decoder, fold bool) (any, error) {
	object, folded := map[string]any{}, map[string]bool{}
	for d.PeekKind() != jsontext.KindEndObject {
		token, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		name := token.String()
		if key := strings.ToLower(strings.ToUpper(name)); fold { // as encoding/json folds: ſ is s
			if folded[key] {
				return nil, fmt.Errorf("the key %q is there twice", name)
			}
			folded[key] = true
		}
		if object[name], err = decodeValue(d, fold); err != nil {
			return nil, err
		}
	}
	_, err := d.ReadToken()
	return object, err
}

// decodeNumber returns an int64, or a float64 if the number does not fit.
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
