package tool

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"

	"symbio/agent/llm"
	"symbio/internal/security/lazyregexp"
)

// Repair returns a call as the model certainly meant it: the name of a tool with a prefix, other case or white space around it,
// arguments behind an empty object or inside of a string, and numbers and booleans in quotes where the schema says another type.
// Ambiguous text stays as it is, and its result will say what is wrong. A name that no provider would take back in a
// history is written with other characters. The call is repaired before anything judges or records it.
func (s *Set) Repair(c llm.ToolCall) llm.ToolCall {
	c.Name = s.catalog.meant(c.Name)
	if t := s.catalog.find(c.Name); t != nil {
		c.Args = meantArgs(c.Args, t.Spec().Schema)
	}
	return c
}

// meant returns the name of the tool that the model named, if there is exactly one, else the name in characters of names.
func (c *catalog) meant(name string) string {
	if c.find(name) != nil {
		return name
	}
	name, _, _ = strings.Cut(name, "<|") // the rest belongs to the format of the model's own language
	name = strings.TrimSpace(name)
	for _, prefix := range []string{"functions.", "functions:", "default_api.", "default_api:", "tools."} {
		name = strings.TrimPrefix(name, prefix)
	}
	if c.find(name) != nil {
		return name
	}
	var same []string
	for _, known := range append(slices.Clone(c.kit.Load().available()), c.finder.Spec().Name) {
		if strings.EqualFold(known, name) {
			same = append(same, known)
		}
	}
	if len(same) == 1 {
		return same[0]
	}
	name = strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	if name == "" {
		return "unnamed"
	}
	return name[:min(len(name), maxName)]
}

// maxName is the longest name that all providers take.
const maxName = 64

// quoted finds values in quotes that may be of another type. Most calls have none.
var quoted = lazyregexp.New(`:\s*"\s*[-0-9tf{[]`)

// meantArgs returns arguments with what can only be meant otherwise put right.
func meantArgs(args, schema json.RawMessage) json.RawMessage {
	if len(args) > maxArgs {
		return args
	}
	if args = meantObject(args); !quoted().Match(args) {
		return args
	}
	object, err := DecodeArgs(args)
	if err != nil {
		return args // the tool says what is wrong
	}
	var want struct {
		Properties map[string]struct{ Type any }
	}
	_ = json.Unmarshal(schema, &want) // a schema without types repairs nothing
	changed := false
	for name, v := range object {
		text, isText := v.(string)
		if !isText {
			continue
		}
		if value := unquoted(text, want.Properties[name].Type); value != nil {
			object[name], changed = value, true
		}
	}
	if !changed {
		return args
	}
	if again, err := json.Marshal(object); err == nil {
		return again
	}
	return args
}

// unquoted returns the value of that schema's type that a text is; nil if it is none.
func unquoted(text string, kind any) any {
	if list, ok := kind.([]any); ok { // such as ["integer", "null"]
		list = slices.DeleteFunc(slices.Clone(list), func(one any) bool { return one == "null" })
		if len(list) != 1 {
			return nil
		}
		kind = list[0]
	}
	text = strings.TrimSpace(text)
	var v any
	switch kind {
	case "boolean":
		if text == "true" || text == "false" {
			return text == "true"
		}
		return nil
	case "integer":
		if _, err := strconv.ParseInt(text, 10, 64); err != nil {
			return nil
		}
		return json.Number(text)
	case "number":
		if json.Unmarshal([]byte(text), new(float64)) != nil {
			return nil
		}
		return json.Number(text)
	case "array":
		v = &[]json.RawMessage{}
	case "object":
		v = &map[string]json.RawMessage{}
	default:
		return nil
	}
	if json.Unmarshal([]byte(text), v) != nil {
		return nil
	}
	return json.RawMessage(text)
}

// meantObject returns the object in arguments that are a string: written as JSON once more, or behind empty objects, as models of
// some servers do.
func meantObject(args json.RawMessage) json.RawMessage {
	var text string
	if len(args) == 0 || args[0] != '"' || json.Unmarshal(args, &text) != nil {
		return args
	}
	var meant json.RawMessage
	for in := json.NewDecoder(strings.NewReader(text)); ; {
		var one json.RawMessage
		switch err := in.Decode(&one); {
		case err == io.EOF && meant != nil:
			return meant
		case err != nil:
			return args
		}
		one = bytes.TrimSpace(one)
		switch {
		case len(one) == 0 || one[0] != '{':
			return args
		case meant == nil || string(meant) == "{}" || bytes.Equal(meant, one):
			meant = one
		case string(one) != "{}":
			return args // two that differ
		}
	}
}
