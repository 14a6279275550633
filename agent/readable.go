package agent

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// readable is the arguments of a call as JSON for people: with < > & as they are. It is written for each decision, so
// that the usual ones, a few words and numbers, are written without encoding/json.
func readable(args map[string]any) json.RawMessage {
	if text, ok := simple(args); ok {
		return text
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(args) != nil {
		return nil
	}
	return bytes.TrimSpace(b.Bytes())
}

// simple writes what has only texts without special characters, whole numbers and booleans; false: there is more.
func simple(args map[string]any) (json.RawMessage, bool) {
	if args == nil {
		return nil, false
	}
	size := 2
	for name, v := range args {
		if !plainText(name) {
			return nil, false
		}
		size += len(name) + 24
		switch v := v.(type) {
		case string:
			if !plainText(v) {
				return nil, false
			}
			size += len(v)
		case int64, bool:
		default:
			return nil, false
		}
	}
	b := append(make([]byte, 0, size), '{')
	names := make([]string, 0, 8)
	for name := range args {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), name...), `":`...)
		switch v := args[name].(type) {
		case string:
			b = append(append(append(b, '"'), v...), '"')
		case int64:
			b = strconv.AppendInt(b, v, 10)
		case bool:
			b = strconv.AppendBool(b, v)
		}
	}
	return append(b, '}'), true
}

// plainText reports whether a text stands in JSON as it is.
func plainText(s string) bool {
	return strings.IndexFunc(s, func(c rune) bool { return c < ' ' || c > '~' || c == '"' || c == '\\' }) < 0
}
